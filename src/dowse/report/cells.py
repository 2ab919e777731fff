"""A table in the paper's form, as cells that any renderer can write: methods down, targets across."""

from collections.abc import Callable
from dataclasses import dataclass

from dowse.report import numbers
from dowse.report.model import Entry, Group, Numbers, Table, best


@dataclass(frozen=True)
class Cell:
    """A number of a table.

    Attributes:
        text: As it is read; – where there is none.
        interval: Its 95 % interval, empty where there is none.
        value: As it is sorted by; NaN where there is none.
        best: Whether it is the best of its column, among the runs on the same images.
        images: How many images it is of, where they are not those of the methods ranked; else empty.
    """

    text: str
    interval: str
    value: float
    best: bool
    images: str = ""


@dataclass(frozen=True)
class Column:
    """What a target's sub-column holds.

    Attributes:
        name: Its heading.
        meaning: What it says, in a sentence.
        value: From a run's numbers to the column's.
        text: From that to how it is read.
        interval: From a run's numbers to the interval's words.
        largest: Whether the largest is the best.
    """

    name: str
    meaning: str
    value: Callable[[Numbers], float]
    text: Callable[[float], str]
    interval: Callable[[Numbers], str]
    largest: bool = False


ASR = Column(
    "ASR",
    "Attack success rate: the share of the attacked images that were fooled, with Wilson's 95 % interval.",
    lambda n: n.summary.asr,
    numbers.percent,
    lambda n: numbers.percent_interval(n.asr_interval),
    largest=True,
)
AVERAGE = Column(
    "AVG. Q",
    "Mean queries over the successes, as in the paper, with a bootstrap 95 % interval. "
    "It flatters a method that fails on hard images.",
    lambda n: n.summary.mean_queries,
    numbers.queries,
    lambda n: numbers.queries_interval(n.mean_interval),
)
MEDIAN = Column(
    "Median",
    "Median queries with every failure counted as infinite, with a 95 % interval from order statistics.",
    lambda n: n.summary.median_queries,
    numbers.queries,
    lambda n: numbers.queries_interval(n.median_interval),
)
PAPER = (ASR, AVERAGE, MEDIAN)
EMPTY = Cell(numbers.NONE, "", float("nan"), False)


def fill(table: Table) -> dict[str, list[list[Cell]]]:
    """By method, for each group, the cells of its columns; best ones are marked, ties all of them."""
    filled: dict[str, list[list[Cell]]] = {method: [] for method in table.methods}
    for group in table.groups:
        marks = [_best(column, group.comparable) for column in PAPER]
        for method in table.methods:
            entry = group.entry(method)
            cells = [
                EMPTY if entry is None else _cell(column, group, entry, marked)
                for column, marked in zip(PAPER, marks, strict=True)
            ]
            filled[method].append(cells)
    return filled


def how_ranked(table: Table) -> str:
    """How the best of a column was chosen where its runs are of different images; empty where all are of the same."""
    said = []
    for group in (group for group in table.groups if group.uneven):
        ranked = group.comparable
        if len(ranked) > 1:
            images = numbers.images(ranked[0].numbers.summary.n)
            said.append(f"{group.name}, {len(ranked)} of {len(group.entries)} methods on {images}")
        else:
            said.append(f"{group.name}, no two methods")
    ends = "others say of how many they are"
    return f"Best is chosen only among methods on the same images: {'; '.join((*said, ends))}." if said else ""


def _best(column: Column, entries: list[Entry]) -> set[str]:
    """The runs that are best as the table shows them: what reads the same is a tie."""
    values = [column.value(entry.numbers) for entry in entries]
    shown = {column.text(values[i]) for i in best(values, largest=column.largest)}
    return {entry.run.id for entry, value in zip(entries, values, strict=True) if column.text(value) in shown}


def _cell(column: Column, group: Group, entry: Entry, marked: set[str]) -> Cell:
    value = column.value(entry.numbers)
    other = column is ASR and group.uneven and entry not in group.comparable
    images = numbers.images(entry.numbers.summary.n) if other else ""
    return Cell(column.text(value), column.interval(entry.numbers), value, entry.run.id in marked, images)
