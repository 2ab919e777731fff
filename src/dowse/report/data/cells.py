"""A table in the paper's form, as cells that any renderer can write: methods down, targets across."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dowse.report.data.model import Group, Numbers, Table, TableEntry
from dowse.report.data.statistics import Interval
from dowse.wording import NONE, percent, plural, queries


@dataclass(frozen=True)
class Cell:
    """A number of a table.

    Attributes:
        text: As it is read; – where there is none.
        value: As it is sorted by; NaN where there is none.
        best: Whether it is the best of its column, among the runs on the same images.
        interval: Its 95 % interval, empty where there is none.
        images: How many images it is of, where they are not those of the methods ranked; else empty.
    """

    text: str = NONE
    value: float = math.nan
    best: bool = False
    interval: str = ""
    images: str = ""


@dataclass(frozen=True)
class Measure:
    """One of the numbers that a table has of every run.

    Attributes:
        name: Its heading.
        meaning: What it says, in a sentence.
        value: From a run's numbers to this one.
        text: From that to how it is read.
        interval: From a run's numbers to the interval's ends.
        largest: Whether the largest is the best.
    """

    name: str
    meaning: str
    value: Callable[[Numbers], float]
    text: Callable[[float], str]
    interval: Callable[[Numbers], Interval]
    largest: bool = False

    def between(self, numbers: Numbers) -> str:
        """The interval in words, empty where there is none."""
        low, high = self.interval(numbers)
        return "" if math.isnan(low) else f"{self.text(low).removesuffix('%')}–{self.text(high).removesuffix('%')}"


ASR = Measure(
    "ASR",
    "Attack success rate: the share of the attacked images that were fooled, with Wilson's 95 % interval.",
    lambda n: n.summary.asr,
    percent,
    lambda n: n.asr_interval,
    largest=True,
)
AVERAGE = Measure(
    "AVG. Q",
    "Mean queries over the successes, as in the paper, with a bootstrap 95 % interval. "
    "It flatters a method that fails on hard images.",
    lambda n: n.summary.mean_queries,
    queries,
    lambda n: n.mean_interval,
)
MEDIAN = Measure(
    "Median",
    "Median queries with every failure counted as infinite, with a 95 % interval from order statistics.",
    lambda n: n.summary.median_queries,
    queries,
    lambda n: n.median_interval,
)
MEASURES = (ASR, AVERAGE, MEDIAN)


def fill(table: Table) -> dict[str, list[list[Cell]]]:
    """By method, for each group, a cell a measure; best ones are marked, ties all of them."""
    filled: dict[str, list[list[Cell]]] = {method: [] for method in table.methods}
    for group in table.groups:
        marks = [_best(measure, group.comparable) for measure in MEASURES]
        for method, cells in filled.items():
            entry = group.entry(method)
            cells.append(
                [
                    Cell() if entry is None else _cell(measure, group, entry, marked)
                    for measure, marked in zip(MEASURES, marks, strict=True)
                ]
            )
    return filled


def how_ranked(table: Table) -> str:
    """How the best of a column was chosen where its runs are of different images; empty where all are of the same."""
    said = []
    for group in (group for group in table.groups if group.uneven):
        ranked = group.comparable
        if len(ranked) > 1:
            images = plural(ranked[0].numbers.summary.n, "image")
            said.append(f"{group.name}, {len(ranked)} of {len(group.entries)} methods on {images}")
        else:
            said.append(f"{group.name}, no two methods")
    ends = "others say of how many they are"
    return f"Best is chosen only among methods on the same images: {'; '.join((*said, ends))}." if said else ""


def best(values: list[float], *, largest: bool) -> set[int]:
    """The places of the best among values, all of them if they tie; never NaN, an infinite or a lone value."""
    known = [value for value in values if not math.isnan(value)]
    top = math.nan if len(known) < 2 else max(known) if largest else min(known)
    return {i for i, value in enumerate(values) if value == top and math.isfinite(top)}


def _best(measure: Measure, entries: list[TableEntry]) -> set[str]:
    """The runs that are best as the table shows them: what reads the same is a tie."""
    values = [measure.value(entry.numbers) for entry in entries]
    shown = {measure.text(values[i]) for i in best(values, largest=measure.largest)}
    return {entry.run.id for entry, value in zip(entries, values, strict=True) if measure.text(value) in shown}


def _cell(measure: Measure, group: Group, entry: TableEntry, marked: set[str]) -> Cell:
    value = measure.value(entry.numbers)
    other = measure is ASR and group.uneven and entry not in group.comparable
    images = plural(entry.numbers.summary.n, "image") if other else ""
    return Cell(measure.text(value), value, entry.run.id in marked, measure.between(entry.numbers), images)
