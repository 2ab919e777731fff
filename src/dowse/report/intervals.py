"""What a sample leaves open: confidence intervals for a share, a mean and a median."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

Interval = tuple[float, float]
Z95 = 1.959963984540054  # Φ⁻¹(0.975)
DRAWS = 2000
NOTHING: Interval = (math.nan, math.nan)


def wilson(successes: int, n: int, z: float = Z95) -> Interval:
    """The score interval of a share, Wilson 1927: all p with |p̂ − p| ≤ z √(p (1 − p) / n); NaN where n = 0."""
    if n == 0:
        return NOTHING
    p, shrink = successes / n, 1 + z * z / n
    centre = (p + z * z / (2 * n)) / shrink
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / shrink
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)


def bootstrap_mean(values: Sequence[float], seed: int = 0, draws: int = DRAWS) -> Interval:
    """The percentile interval (2.5 % to 97.5 %) of a mean: `draws` samples of n with replacement; NaN where n < 2.

    The seed is fixed, so that a report says the same each time it is written.
    """
    if len(values) < 2:
        return NOTHING
    sample, rng = np.asarray(values, dtype=np.float64), np.random.default_rng(seed)
    n, chunk = len(sample), max(1, 2_000_000 // len(sample))
    means = [
        sample[rng.integers(n, size=(min(chunk, draws - start), n))].mean(axis=1) for start in range(0, draws, chunk)
    ]
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
    ordered, k = sorted(values), _rank(len(values))
    return (ordered[k - 1], ordered[-k]) if k else (0.0, math.inf)


@cache
def coin_tail(k: int, n: int) -> float:
    """P(Binomial(n, ½) ≤ k), summed up in whole numbers, so that it is exact for any n."""
    ways, total = 1, 0
    for i in range(k + 1):
        total += ways
        ways = ways * (n - i) // (i + 1)
    return total / (1 << n)


@cache
def _rank(n: int) -> int:
    """The largest k with P(Binomial(n, ½) < k) ≤ 0.025."""
    guess = max(0, math.floor(n / 2 - Z95 * math.sqrt(n) / 2) - 2)
    while guess > 0 and coin_tail(guess - 1, n) > 0.025:
        guess -= 1
    while guess < n and coin_tail(guess, n) <= 0.025:
        guess += 1
    return guess
