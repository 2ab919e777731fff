"""A table in the paper's form, as cells that any renderer can write: methods down, targets across."""

from collections.abc import Callable
from dataclasses import dataclass

from dowse.report import numbers
from dowse.report.model import Entry, Numbers, Table, best


@dataclass(frozen=True)
class Cell:
    """A number of a table.

    Attributes:
        text: As it is read; – where there is none.
        interval: Its 95 % interval, empty where there is none.
        value: As it is sorted by; NaN where there is none.
        best: Whether it is the best of its column.
    """

    text: str
    interval: str
    value: float
    best: bool


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
AT_BUDGET = Column(
    "Mean, failures at budget",
    "Mean queries with every failure counted at the whole budget.",
    lambda n: n.summary.mean_queries_budget,
    numbers.queries,
    lambda n: "",
)
PAPER = (ASR, AVERAGE, MEDIAN)
EMPTY = Cell(numbers.NONE, "", float("nan"), False)


def fill(table: Table, columns: tuple[Column, ...] = PAPER) -> dict[str, list[list[Cell]]]:
    """By method, for each group, the cells of its columns; best ones are marked, ties all of them."""
    filled: dict[str, list[list[Cell]]] = {method: [] for method in table.methods}
    for group in table.groups:
        entries = [group.entry(method) for method in table.methods]
        marks = [_best(column, entries) for column in columns]
        for i, (method, entry) in enumerate(zip(table.methods, entries, strict=True)):
            cells = [
                EMPTY if entry is None else _cell(column, entry.numbers, i in mark)
                for column, mark in zip(columns, marks, strict=True)
            ]
            filled[method].append(cells)
    return filled


def _best(column: Column, entries: list[Entry | None]) -> set[int]:
    """Which entries are best as the table shows them: what reads the same is a tie."""
    values = [float("nan") if entry is None else column.value(entry.numbers) for entry in entries]
    top = best(values, largest=column.largest)
    shown = {column.text(values[i]) for i in top}
    return {i for i, value in enumerate(values) if column.text(value) in shown}


def _cell(column: Column, of: Numbers, marked: bool) -> Cell:
    value = column.value(of)
    return Cell(column.text(value), column.interval(of), value, marked)
