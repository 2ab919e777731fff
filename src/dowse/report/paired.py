"""Two methods on the same images: the sign test and Wilcoxon's signed-rank test, exact where n is small."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dowse.report.intervals import coin_tail
from dowse.store import Row

EXACT = 100  # up to so many differences the distribution is summed up, beyond that it is normal


@dataclass(frozen=True)
class Paired:
    """Two methods, the first and the second, on the images that both attacked.

    A failure counts as one query more than the budget, so that it loses against every success and ties with another
    failure.

    Attributes:
        n: Images that both attacked.
        wins: Images for which the first took fewer queries.
        losses: Images for which the second did.
        mean_difference: The mean of first − second over all n, failures as said; NaN where n = 0.
        sign_p: Two-sided p of the sign test: wins against losses, ties left out.
        wilcoxon_p: Two-sided p of the signed-rank test, ties left out.
        rank_sum: The sum of the signed ranks of that test; below zero it speaks for the first, above for the second.
    """

    n: int
    wins: int
    losses: int
    mean_difference: float
    sign_p: float
    wilcoxon_p: float
    rank_sum: float

    @property
    def ties(self) -> int:
        """Images for which both took the same."""
        return self.n - self.wins - self.losses


def compare_rows(first: Mapping[str, Row], second: Mapping[str, Row]) -> Paired:
    """Compare two runs by image; the keys name the images, the rows are those attacked, cut to one budget."""
    common = [key for key in first if key in second]
    difference = np.array([cost(first[key]) - cost(second[key]) for key in common], dtype=np.float64)
    wins, losses = int((difference < 0).sum()), int((difference > 0).sum())
    return Paired(
        n=len(common),
        wins=wins,
        losses=losses,
        mean_difference=float(difference.mean()) if len(common) else math.nan,
        sign_p=sign_test(wins, losses),
        wilcoxon_p=wilcoxon(difference),
        rank_sum=rank_sum(difference),
    )


def cost(row: Row) -> int:
    """The queries of a success; one more than the budget for a failure."""
    return row.queries if row.success else row.budget + 1


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of wins against losses if each were a fair coin: min(1, 2 P(Binomial(n, ½) ≤ min))."""
    n = wins + losses
    return min(1.0, 2 * coin_tail(min(wins, losses), n)) if n else 1.0


def wilcoxon(differences: NDArray[np.float64]) -> float:
    """Two-sided p of the signed-rank test (Wilcoxon 1945): zeros left out, ties share their mean rank.

    Up to EXACT differences the null distribution is exact, given the ties: every sign is a fair coin, so the sums of
    doubled ranks are counted one rank after the other. Beyond that it is normal, with the variance Σ r²/4 that the
    ties leave and a continuity correction of half a step.
    """
    kept = differences[differences != 0]
    n = len(kept)
    if n == 0:
        return 1.0
    doubled = _doubled_ranks(np.abs(kept))
    positive, total = int(doubled[kept > 0].sum()), int(doubled.sum())
    smaller = min(positive, total - positive)
    if n <= EXACT:
        chance = np.zeros(total + 1)
        chance[0] = 1.0
        for rank in doubled:
            shifted = np.zeros_like(chance)
            shifted[rank:] = chance[: total + 1 - rank]
            chance = (chance + shifted) / 2
        return min(1.0, 2 * float(chance[: smaller + 1].sum()))
    σ = math.sqrt(float((doubled.astype(np.float64) ** 2).sum()) / 4)
    return min(1.0, 2 * _normal_tail(max(0.0, total / 2 - smaller - 1) / σ))  # half a rank is one of doubled ranks


def rank_sum(differences: NDArray[np.float64]) -> float:
    """Σ sign(d) rank(|d|), zeros left out: its sign says which side the signed-rank test speaks for."""
    kept = differences[differences != 0]
    return float((np.sign(kept) * _doubled_ranks(np.abs(kept))).sum() / 2)


def _doubled_ranks(sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Twice the rank of each value, ties sharing the mean of theirs, (n,) integers."""
    _, place, count = np.unique(sizes, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    twice: NDArray[np.int64] = (2 * last - count + 1)[place]
    return twice


def _normal_tail(z: float) -> float:
    """P(Z > z)."""
    return 0.5 * math.erfc(z / math.sqrt(2))
