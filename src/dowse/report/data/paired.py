"""Two methods on the same images: the sign test and Wilcoxon's signed-rank test, exact where n is small."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dowse.store import Row

# scipy.stats is imported where it is used: that takes longer than importing all of the report.

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


@cache
def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of wins against losses if each were a fair coin; exact."""
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def wilcoxon(differences: NDArray[np.float64]) -> float:
    """Two-sided p of the signed-rank test (Wilcoxon 1945): zeros left out, ties share their mean rank.

    Up to EXACT differences the null distribution is exact given the ties, which scipy's is not; beyond that it is
    scipy's normal one, with the variance that the ties leave and a continuity correction.
    """
    kept = differences[differences != 0]
    if len(kept) == 0:
        return 1.0
    if len(kept) <= EXACT:
        return _exact(kept)
    from scipy import stats

    return float(stats.wilcoxon(kept, method="asymptotic", correction=True).pvalue)


def rank_sum(differences: NDArray[np.float64]) -> float:
    """Σ sign(d) rank(|d|), zeros left out: its sign says which side the signed-rank test speaks for."""
    kept = differences[differences != 0]
    return float((np.sign(kept) * _doubled_ranks(kept)).sum() / 2)


def _exact(kept: NDArray[np.float64]) -> float:
    """The test's p with every sign a fair coin: the sums of doubled ranks are counted one rank after the other."""
    doubled = _doubled_ranks(kept)
    positive, total = int(doubled[kept > 0].sum()), int(doubled.sum())
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in doubled:
        shifted = np.zeros_like(chance)
        shifted[rank:] = chance[: total + 1 - rank]
        chance = (chance + shifted) / 2
    return min(1.0, 2 * float(chance[: min(positive, total - positive) + 1].sum()))


def _doubled_ranks(differences: NDArray[np.float64]) -> NDArray[np.int64]:
    """Twice the rank of each |d|, ties sharing the mean of theirs: whole numbers, (n,) -> (n,)."""
    from scipy.stats import rankdata

    twice: NDArray[np.int64] = (2 * rankdata(np.abs(differences))).astype(np.int64)
    return twice
