"""A report as plain data: tables of one norm, in them a column a target, in that an entry a method with its numbers."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dowse.core.summary import Summary, summarize
from dowse.report.data.statistics import (
    Interval,
    Paired,
    Point,
    bootstrap_mean,
    compare_rows,
    median_interval,
    success_curve,
    wilson,
)
from dowse.store import Counted, Row, RunInfo, SessionInfo


@dataclass(frozen=True)
class Numbers:
    """A run in numbers.

    Attributes:
        summary: Counts, ASR, means and the median.
        asr_interval: 95 %, Wilson.
        mean_interval: Of AVG. Q, 95 %, bootstrap over the successes.
        median_interval: At least 95 %, from order statistics, failures infinite.
        curve: Success against queries.
        rate: Queries a second of one process, from the images that ended; NaN if that is unknown.
    """

    summary: Summary
    asr_interval: Interval
    mean_interval: Interval
    median_interval: Interval
    curve: list[Point]
    rate: float


@dataclass(frozen=True)
class TableEntry:
    """A method's run against one target.

    Attributes:
        run: The run as the store knows it.
        method: Its name in this report, unlike that of any other run against the target.
        counted: Its images, read with the table's budget.
        numbers: What those that are done amount to.
    """

    run: RunInfo
    method: str
    counted: Counted
    numbers: Numbers


@dataclass(frozen=True)
class Group:
    """The runs against one target on one image set: a column of a table.

    Attributes:
        target: The target's spec.
        name: How its column is headed.
        source: Where the images are.
        classes: What the classes are called; may be empty.
        eps: The radius of the ball that was used; NaN if it cannot be told.
        entries: A run each, in the order of the store.
    """

    target: str
    name: str
    source: str
    classes: tuple[str, ...]
    eps: float
    entries: list[TableEntry]

    def entry(self, method: str) -> TableEntry | None:
        """The run of a method, None if there is none."""
        return next((entry for entry in self.entries if entry.method == method), None)

    @property
    def attacked(self) -> bool:
        """Whether any image was attacked."""
        return any(entry.counted.attacked for entry in self.entries)

    @cached_property
    def uneven(self) -> bool:
        """Whether its methods attacked different images, so that their numbers cannot be ranked as they stand."""
        return len({frozenset(entry.counted.by_image()) for entry in self.entries}) > 1

    @cached_property
    def comparable(self) -> list[TableEntry]:
        """The entries that can be ranked: those on the same images, the largest set that two or more attacked.

        A lone entry is comparable with itself; where no two attacked the same images, nothing is.
        """
        images = {entry.run.id: frozenset(entry.counted.by_image()) for entry in self.entries if entry.counted.attacked}
        times = Counter(images.values())
        shared = [one for one, number in times.items() if number > 1 or len(images) == 1]
        largest = max(shared, key=lambda one: (len(one), times[one]), default=None)
        return [entry for entry in self.entries if images.get(entry.run.id) == largest is not None]

    @cached_property
    def ranked(self) -> list[TableEntry]:
        """The comparable entries, the smallest median first, among equals the higher success rate."""

        def rank(entry: TableEntry) -> tuple[float, float, str]:
            return entry.numbers.summary.median_queries, -entry.numbers.summary.asr, entry.method

        return sorted(self.comparable, key=rank)

    @property
    def leaders(self) -> list[TableEntry]:
        """Those of the ranked entries whose median and success rate are the best: one, or equals."""

        def numbers(entry: TableEntry) -> tuple[float, float]:
            return entry.numbers.summary.median_queries, entry.numbers.summary.asr

        return [entry for entry in self.ranked if numbers(entry) == numbers(self.ranked[0])]

    def pairs(self) -> dict[tuple[int, int], Paired]:
        """Every two entries compared on the images that both attacked, by their places i < j."""
        images = [entry.counted.by_image() for entry in self.entries]
        return {
            (i, j): compare_rows(images[i], images[j]) for i in range(len(images)) for j in range(i + 1, len(images))
        }


@dataclass(frozen=True)
class Table:
    """Runs that can stand in one table: one norm, one radius, one budget.

    Attributes:
        norm: "l2" or "linf".
        eps: The radius as it was asked for; None is the paper's.
        budget: The most queries an image may cost.
        targeted: Whether each image had a class to be reached.
        groups: A column each.
    """

    norm: str
    eps: float | None
    budget: int
    targeted: bool
    groups: list[Group]

    @property
    def methods(self) -> list[str]:
        """The rows of the table, in the order in which runs first name them."""
        return list(dict.fromkeys(entry.method for group in self.groups for entry in group.entries))


@dataclass(frozen=True)
class Report:
    """All that a store tells.

    Attributes:
        title: What it is called.
        tables: Tables in the order of the store.
        sessions: Every process that wrote there.
    """

    title: str
    tables: list[Table]
    sessions: list[SessionInfo]

    @property
    def methods(self) -> list[str]:
        """The methods of all tables; a method's place is its colour on the page."""
        return list(dict.fromkeys(method for table in self.tables for method in table.methods))

    @property
    def columns(self) -> list[tuple[Table, Group]]:
        """All groups, each with its table."""
        return [(table, group) for table in self.tables for group in table.groups]

    @property
    def entries(self) -> list[TableEntry]:
        """All runs."""
        return [entry for _, group in self.columns for entry in group.entries]

    @property
    def unfinished(self) -> list[int]:
        """How many images are not done of each run that is not done."""
        return [entry.counted.unfinished for entry in self.entries if entry.counted.unfinished]


def measure(rows: Sequence[Row], budget: int, rate: float = math.nan) -> Numbers:
    """What the rows of one run amount to; `rate` is how many queries a second it asked."""
    attacked = [row for row in rows if row.end.attacked]
    taken = [row.queries for row in attacked if row.success]
    return Numbers(
        summary=summarize(rows),
        asr_interval=wilson(len(taken), len(attacked)),
        mean_interval=bootstrap_mean(taken),
        median_interval=median_interval([row.queries if row.success else math.inf for row in attacked]),
        curve=success_curve(taken, len(attacked), budget),
        rate=rate,
    )


def queries_a_second(rows: Sequence[Row], began: Mapping[int, float]) -> float:
    """Of one process: the queries of the images that ended, from a run's first to its last in each process.

    Of an image that another process began, the share counts that its time here is of all its time. `began` says when
    each process did, in seconds since 1970.
    """
    seconds = queries = 0.0
    for session in {row.session for row in rows}:
        mine = [row for row in rows if row.session == session]
        start = began.get(session, 0.0)
        seconds += max(row.finished for row in mine) - max(min(row.finished - row.seconds for row in mine), start)
        queries += sum(row.queries * min(1.0, (row.finished - start) / max(row.seconds, 1e-9)) for row in mine)
    return queries / seconds if seconds > 0 else math.nan
