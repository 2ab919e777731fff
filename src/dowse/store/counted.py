"""Which rows of a run count, for what is asked for: one rule for every table, curve, tally and comparison."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from dowse.core.outcome import End
from dowse.store.row import Row


@dataclass(frozen=True)
class Counted:
    """The images of a run that are asked for, with a budget.

    Attributes:
        rows: Those that are done, as they would stand with the budget.
        going_on: Those that ended and are not done: they ran out of a smaller budget, or the target failed.
        stored: All of these as the store has them.
        unfinished: How many of the images asked for are not done.
    """

    rows: list[Row]
    going_on: list[Row]
    stored: list[Row]
    unfinished: int

    @cached_property
    def attacked(self) -> list[Row]:
        """Of the rows that are done, all but those that the target got wrong from the start or failed on."""
        return [row for row in self.rows if row.end.attacked]

    @property
    def failed(self) -> list[Row]:
        """Of those that go on, the ones that the target failed on; `dowse run` tries them again."""
        return [row for row in self.going_on if row.end is End.TARGET_FAILED]

    def by_image(self) -> dict[str, Row]:
        """The attacked rows by image; the checksum tells an image, wherever it stands in its set."""
        return {row.checksum: row for row in self.attacked}


def count_rows(rows: Iterable[Row], budget: int, count: int, skipped: Collection[int]) -> Counted:
    """The first `count` images that can be read, with a budget; `skipped` are the places of those that cannot."""
    limit = places(count, skipped)
    stored = [row for row in rows if row.position < limit and row.position not in skipped]
    cut = [row.within(budget) for row in stored]
    done = [row if row.budget == budget else replace(row, budget=budget) for row in cut if not row.goes_on(budget)]
    return Counted(done, [row for row in cut if row.goes_on(budget)], stored, max(0, count - len(done)))


def places(count: int, skipped: Collection[int]) -> int:
    """How many places of an image set it takes to have `count` images that can be read."""
    for position in sorted(skipped):
        count += position < count
    return count
