"""When a search that has come to a stand begins anew, and which of its two places it goes on from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

WINDOW = 32  # queries after which the first try is looked at; twice as many after each new beginning
AHEAD = 12  # windows at the pace of the last one, within which a try has to reach its goal


class Place(Protocol):
    """Where a search stands, with its loss f, which is positive where it is done."""

    @property
    def f(self) -> float: ...


P = TypeVar("P", bound=Place)


@dataclass(frozen=True)
class Tries(Generic[P]):
    """How the present try fares.

    Attributes:
        since: f as the present window began.
        asked: Queries of the present window.
        window: Its length.
        aside: Where the try before stood as it came to a stand, if this one began anew.
    """

    since: float
    asked: int = 0
    window: int = WINDOW
    aside: P | None = None

    def after(self, asked: int) -> "Tries[P]":
        """After so many queries more."""
        return replace(self, asked=self.asked + asked)

    def go_on(self, at: P, fresh: Callable[[], P]) -> tuple[P, "Tries[P]"]:
        """Where to go on from: here, or from a fresh place if this one has come to a stand, or from the better of two.

        A try stands still where, at the pace of its last window, it would need more than `AHEAD` of them.
        """
        if self.asked < self.window:
            return at, self
        if self.aside is not None:
            better = at if at.f >= self.aside.f else self.aside
            return better, Tries(better.f, window=2 * self.window)
        if AHEAD * (at.f - self.since) < -at.f:
            start = fresh()
            return start, Tries(start.f, window=self.window, aside=at)
        return at, replace(self, since=at.f, asked=0)
