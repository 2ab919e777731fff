"""How a model stands in one norm: of each picture the strongest attack, and what all pictures amount to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dowse.core.outcome import End
from dowse.report.data.model import Group, Table, TableEntry
from dowse.report.data.statistics import Interval, Point, median_interval, success_curve, wilson
from dowse.store import Row


@dataclass(frozen=True)
class Picture:
    """One picture that the model gets right, and the attack that it fell to in the fewest queries.

    Attributes:
        name: What it is called.
        checksum: What tells it from all others.
        label: Its class.
        queries: What its fall took; infinite if it withstood every attack.
        attacks: The attacks that took so few, in the order of the portfolio; none if it withstood.
        row: The row of the first of them; None if it withstood.
    """

    name: str
    checksum: str
    label: int | None
    queries: float
    attacks: tuple[str, ...] = ()
    row: Row | None = None

    @property
    def attack(self) -> str | None:
        """The first of the attacks that took so few; None if it withstood."""
        return self.attacks[0] if self.attacks else None

    @property
    def fell(self) -> bool:
        """Whether any attack fooled the model on it."""
        return self.row is not None


@dataclass(frozen=True)
class Standing:
    """A model in one norm.

    Attributes:
        norm: "l2" or "linf".
        eps: The ball's radius; NaN if it cannot be told.
        budget: The most queries an attack was allowed on a picture.
        wrong: Pictures that it gets wrong unchanged.
        pictures: Those that it gets right, in the order of the set.
        attacks: Of every attack, what each of these pictures took it, infinite where it did not fool the model; a
            picture that it has not ended with is left out, and so is an attack that has ended with none.
        unfinished: The most pictures that an attack has not ended with.
        own_labels: Whether a picture is right as the model itself takes it, for want of labels.
        detected: Pictures that still stand and on which an attack was ended, because the model refused a query.
    """

    norm: str
    eps: float
    budget: int
    wrong: int
    pictures: tuple[Picture, ...]
    attacks: dict[str, tuple[float, ...]]
    unfinished: int = 0
    own_labels: bool = False
    detected: int = 0

    @property
    def total(self) -> int:
        """Pictures that the model was asked about."""
        return self.wrong + len(self.pictures)

    @property
    def right(self) -> int:
        """Pictures that it gets right unchanged."""
        return len(self.pictures)

    def strongest_on(self, attack: str) -> int:
        """The pictures that fell to no attack in fewer queries than to this one; equals all count."""
        return sum(attack in picture.attacks for picture in self.pictures)

    @cached_property
    def taken(self) -> tuple[float, ...]:
        """What each picture withstood, fewest queries first; infinite for those that never fell."""
        return tuple(sorted(picture.queries for picture in self.pictures))

    @property
    def fell(self) -> int:
        """Pictures that fell to some attack."""
        return sum(math.isfinite(queries) for queries in self.taken)

    @property
    def clean_accuracy(self) -> float:
        """The share of all pictures that it gets right unchanged; NaN without any."""
        return self.right / self.total if self.total else math.nan

    def falls_within(self, share: float) -> float:
        """The fewest queries within which so large a share of the pictures it gets right falls; infinite if none do."""
        return quantile(self.taken, share)

    def accuracy(self, queries: int) -> float:
        """The share of all pictures still right after so many queries; NaN beyond the budget, which tells nothing."""
        return self.standing_after(queries) / self.total if self.total and queries <= self.budget else math.nan

    def standing_after(self, queries: float) -> int:
        """How many pictures still stand after so many queries."""
        return sum(taken > queries for taken in self.taken)

    def interval_of_half(self) -> Interval:
        """The 95 % interval of the queries within which half of such pictures fall."""
        return median_interval(self.taken)

    def interval_of_accuracy(self, queries: int) -> Interval:
        """The 95 % interval of the accuracy left after so many queries."""
        return wilson(self.standing_after(queries), self.total)

    def curve(self, attack: str | None = None) -> list[Point]:
        """Accuracy left against queries spent: under the strongest attack of each picture, or under one of them."""
        taken = self.taken if attack is None else self.attacks[attack]
        fell = [int(queries) for queries in taken if math.isfinite(queries)]
        lost = success_curve([*fell, *[1] * self.wrong], self.wrong + len(taken), self.budget)
        return [Point(point.queries, 1 - point.rate, 1 - point.high, 1 - point.low) for point in lost]


def quantile(taken: Sequence[float], share: float) -> float:
    """The smallest number of queries within which at least so large a share fell; NaN of nothing.

    >>> [quantile([2, 3, 40, float("inf")], share) for share in (0.5, 0.75, 1)]
    [3, 40, inf]
    """
    place = max(1, math.ceil(share * len(taken) - 1e-9))
    return sorted(taken)[place - 1] if taken else math.nan


def standing_of(table: Table, group: Group) -> Standing:
    """How the model of a group stands. A picture that any run found wrong unchanged is wrong."""
    rows = [(entry, row) for entry in group.entries for row in entry.counted.rows if not row.end.failed]
    wrong = {row.checksum for _, row in rows if row.end is End.ALREADY_WRONG}
    found: dict[str, list[tuple[TableEntry, Row]]] = {}
    for entry, row in sorted(rows, key=lambda one: one[1].position):
        if row.checksum not in wrong:
            found.setdefault(row.checksum, []).append((entry, row))
    attacks = {
        entry.method: taken
        for entry in group.entries
        if (taken := tuple(_taken(row) for row in entry.counted.attacked if row.checksum in found))
    }
    return Standing(
        norm=table.norm,
        eps=group.eps,
        budget=table.budget,
        wrong=len(wrong),
        pictures=tuple(_strongest(looks) for looks in found.values()),
        attacks=attacks,
        unfinished=max((entry.counted.unfinished for entry in group.entries), default=0),
        own_labels=any(entry.run.own_labels for entry in group.entries),
        detected=sum(
            any(row.end is End.DETECTED for _, row in looks) and not any(row.success for _, row in looks)
            for looks in found.values()
        ),
    )


def _strongest(looks: Sequence[tuple[TableEntry, Row]]) -> Picture:
    """A picture and the attacks that took the fewest queries."""
    least = min(_taken(row) for _, row in looks)
    best = [(entry.method, row) for entry, row in looks if row.success and row.queries == least]
    row = best[0][1] if best else looks[0][1]
    attacks = tuple(dict.fromkeys(method for method, _ in best))
    return Picture(row.name, row.checksum, row.label, least, attacks, row if best else None)


def _taken(row: Row) -> float:
    return row.queries if row.success else math.inf
