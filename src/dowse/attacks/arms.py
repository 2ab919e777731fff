"""Several ways to move, drawn by what each has gained a query: the bandit inside the attack `dowse`."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

ARMS = ("climb", "ods", "slope", "bump", "ripple")
TRANSFERS = 3  # queries that are transfer examples from the unchanged image, each of other views and a wiser model
INFORMED = 6  # moves before a learnt slope is worth a query
REMEMBERED = 0.3  # share of the newest gain in an arm's running mean
FLOOR = 0.1  # chance of the worst arm relative to the best
FLOOR_ALONE = 0.3  # the same in l2 without a surrogate, where ripples end in many small gains and windows lead out


class Reach(NamedTuple):
    """How the size of an arm's move adapts: its factors after a gain and after none, its least and its greatest."""

    won: float
    lost: float
    least: float
    most: float

    def after(self, size: float, *, won: bool) -> float:
        """The size of the next move."""
        return min(self.most, max(size * (self.won if won else self.lost), self.least))


REACH = {
    "climb": Reach(2.0, 0.7, 0.05, 1.0),  # its trust region in ε
    "ods": Reach(1.2, 0.9, 0.1, 2.0),  # its step, relative to the first
    "slope": Reach(1.5, 0.5, 0.01, 1.0),  # the share of the pixels that are moved, of those that promise a gain
    "ripple": Reach(1.2, 0.9, 0.1, 3.0),  # its step, relative to the first
}
CLIMB_AGAIN = 0.25  # the climb's least trust region at a new place
SLOPE_AGAIN = 1.1  # the slope's share grows by it with every other move, each of which teaches it


@dataclass(frozen=True)
class Arms:
    """The ways to move, what each has gained a query, and how far it reaches.

    Attributes:
        gain: The running mean of each arm's gain a query, by name; only arms that can be used stand here.
        size: How far each arm reaches (`REACH`).
        opening: The first moves, whatever the gains say: transfer examples, or all patterns without a surrogate.
        turns: Moves so far.
        bumps: Moves of the bump so far; the first `patterns` of them are patterns.
        patterns: How many patterns are tried at all.
    """

    gain: dict[str, float]
    size: dict[str, float]
    opening: tuple[str, ...]
    turns: int = 0
    bumps: int = 0
    patterns: int = 0

    @classmethod
    def fresh(cls, surrogates: bool, norm: str, f: float, patterns: int) -> "Arms":
        """Before the first move; an arm is believed to gain a tenth of what is wanted, or nothing until it has.

        Nothing is expected of a slope that has yet to be learnt.
        """
        usable = [arm for arm in ARMS if _usable(arm, surrogates, norm)]
        opening = ("climb",) * TRANSFERS if surrogates else ("bump",) * max(patterns, 1)
        gains = {arm: 0.0 if arm == "slope" else -f / 10 for arm in usable}
        return cls(gains, dict.fromkeys(usable, 1.0), opening, patterns=patterns)

    def draw(self, rng: torch.Generator) -> str:
        """One of them, with a chance in proportion to its gain."""
        if self.turns < len(self.opening):
            return self.opening[self.turns]
        arms = [arm for arm in self.gain if arm != "slope" or self.turns >= INFORMED]
        gains = torch.tensor([max(self.gain[arm], 0.0) for arm in arms], dtype=torch.float64)
        if not gains.isfinite().all():
            gains = torch.ones_like(gains)
        floor = FLOOR_ALONE if "ripple" in arms else FLOOR
        chances = gains + floor * gains.max() + 1e-12
        return arms[int(torch.multinomial(chances, 1, generator=rng))]

    @property
    def windows(self) -> int:
        """The moves that windows have shrunk by: their own, or all of them in l2 without a surrogate."""
        return (self.turns if "ripple" in self.gain else self.bumps) - self.patterns

    def after(self, arm: str, gain: float, *, won: bool) -> "Arms":
        """What a move that gained so much a query makes of them."""
        share = 1.0 if self.turns == 0 else REMEMBERED
        gains = self.gain | {arm: self.gain[arm] + share * (gain - self.gain[arm])}
        sizes = self.size | ({arm: REACH[arm].after(self.size[arm], won=won)} if arm in REACH else {})
        if won and arm != "climb" and "climb" in sizes:
            sizes["climb"] = max(sizes["climb"], CLIMB_AGAIN)
        if arm != "slope" and "slope" in sizes:
            sizes["slope"] = min(REACH["slope"].most, SLOPE_AGAIN * sizes["slope"])
        turns, bumps = self.turns + 1, self.bumps + (arm == "bump")
        return replace(self, gain=gains, size=sizes, turns=turns, bumps=bumps)


def _usable(arm: str, surrogates: bool, norm: str) -> bool:
    """Pixels are climbed in l2 without a surrogate too, with ripples to learn them from, where l∞ has the slope."""
    alone = norm == "l2" and not surrogates
    usable = {"climb": surrogates or alone, "ods": surrogates, "slope": norm == "linf", "bump": True, "ripple": alone}
    return usable[arm]
