"""What a sample tells and leaves open: intervals of a share, a mean and a median, success curves, paired tests."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dowse.store import Row

# scipy.special is imported where it is used, scipy.stats only for what nothing else has: its import takes 1.7 s of CPU
# time, that of the report 0.4 (docs/decisions/0012).

Interval = tuple[float, float]
DRAWS = 2000
MANY = 10_000  # values of which a bootstrap sample is drawn by their counts
Z_95 = NormalDist().inv_cdf(0.975)
NOTHING: Interval = (math.nan, math.nan)


@cache
def wilson(successes: int, n: int) -> Interval:
    """The 95 % score interval of a share, Wilson 1927; NaN where n = 0."""
    if n == 0:
        return NOTHING
    share, z2 = successes / n, Z_95**2
    centre, spread = share + z2 / (2 * n), Z_95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = ((centre + side * spread) / (1 + z2 / n) for side in (-1, 1))
    return 0.0 if successes == 0 else low, 1.0 if successes == n else high


def bootstrap_mean(values: Sequence[float], seed: int = 0, draws: int = DRAWS) -> Interval:
    """The percentile interval (2.5 % to 97.5 %) of a mean: `draws` samples of n with replacement; NaN where n < 2.

    The seed is fixed, so that a report says the same each time it is written.
    """
    if len(values) < 2:
        return NOTHING
    sample, rng = np.asarray(values, dtype=np.float64), np.random.default_rng(seed)
    n, chunk = len(sample), max(1, 2_000_000 // len(sample))
    if n > MANY:  # how often each value is drawn, of which there are fewer: as probable, and 2,000·n draws fewer
        known, times = np.unique(sample, return_counts=True)
        means = [rng.multinomial(n, times / n, min(chunk, draws - i)) @ known / n for i in range(0, draws, chunk)]
    else:
        means = [sample[rng.integers(n, size=(min(chunk, draws - i), n))].mean(axis=1) for i in range(0, draws, chunk)]
    low, high = np.quantile(np.concatenate(means), (0.025, 0.975))
    return float(low), float(high)


def median_interval(values: Sequence[float]) -> Interval:
    """An interval of at least 95 % for the median, from order statistics; values may be infinite, NaN where n = 0.

    It runs from the k-th smallest to the k-th largest value with the largest k for which the chance that fewer than k
    of n values lie below the median, Binomial(n, ½), is at most 2.5 %. With five values or fewer there is no such k:
    the interval is then from 0 to ∞, which says that so few images tell nothing.
    """
    if not values:
        return NOTHING
    ordered, k = sorted(values), _binomial_quantile(0.025, len(values))
    return (ordered[k - 1], ordered[-k]) if k else (0.0, math.inf)


def _binomial_quantile(q: float, n: int) -> int:
    """The least k with P(Binomial(n, ½) ≤ k) ≥ q."""
    from scipy.special import bdtr, bdtrik

    k = math.ceil(float(bdtrik(q, n, 0.5)))
    return k - 1 if k and bdtr(k - 1, n, 0.5) >= q else k


MOST = 160  # points of a curve; more cannot be told apart on a screen


class Point(NamedTuple):
    """Within `queries` queries the share `rate` was fooled; (low, high) is its 95 % interval (Wilson), pointwise."""

    queries: int
    rate: float
    low: float
    high: float


def success_curve(queries: Sequence[int], n: int, budget: int, most: int = MOST) -> list[Point]:
    """The success curve of a run as a staircase: it keeps a point's value until the next.

    Args:
        queries: What each success took.
        n: Images attacked.
        budget: Where the curve ends.
        most: Points at most; with more steps than that, the steps are joined on a log axis.
    """
    if n == 0:
        return []
    taken = np.sort(np.asarray(queries, dtype=np.int64))
    steps = np.unique(taken)
    if len(steps) > most - 2:
        low, high = max(1, int(steps[0])), int(steps[-1])
        steps = np.unique(np.concatenate([steps[:1], np.geomspace(low, high, most - 2).round().astype(np.int64)]))
    places = sorted({1, *map(int, steps), budget})
    counts = np.searchsorted(taken, places, side="right")
    return [Point(q, int(k) / n, *wilson(int(k), n)) for q, k in zip(places, counts, strict=True)]


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
    return compare(*({key: cost(row) for key, row in rows.items()} for rows in (first, second)))


def compare(first: Mapping[str, float], second: Mapping[str, float]) -> Paired:
    """Compare two runs by what each image cost them; the keys name the images."""
    common = [key for key in first if key in second]
    difference = np.array([first[key] - second[key] for key in common], dtype=np.float64)
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
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)))


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
    _, place, times = np.unique(np.abs(differences), return_inverse=True, return_counts=True)
    last: NDArray[np.int64] = times.cumsum()  # the rank of the last of those that tie
    return (2 * last - times + 1)[place]
