"""What a sample leaves open: confidence intervals for a share, a mean and a median."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

# scipy.stats is imported where it is used: that takes longer than importing all of the report.

Interval = tuple[float, float]
DRAWS = 2000
NOTHING: Interval = (math.nan, math.nan)


@cache
def wilson(successes: int, n: int) -> Interval:
    """The 95 % score interval of a share, Wilson 1927; NaN where n = 0."""
    if n == 0:
        return NOTHING
    from scipy.stats import binomtest

    # Only the interval is wanted; testing the share that was found spares the search for a p-value.
    low, high = binomtest(successes, n, successes / n).proportion_ci(method="wilson")
    return float(low), float(high)


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
    from scipy.stats import binom

    ordered, k = sorted(values), int(binom.ppf(0.025, len(values), 0.5))
    return (ordered[k - 1], ordered[-k]) if k else (0.0, math.inf)
