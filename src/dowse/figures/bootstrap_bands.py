"""Means over images with their 95 % band, by the bootstrap over images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
RESAMPLES = 2000


class Band(NamedTuple):
    """A mean and its 95 % interval, (k,) each."""

    mean: Numbers
    low: Numbers
    high: Numbers


def band(sums: Numbers, counts: Numbers) -> Band:
    """Σ sums / Σ counts over images, (n, k) each -> (k,), the images drawn anew 2000 times for the interval.

    An image is drawn with all its iterations, which are no independent draws; the seed is fixed, so that a redrawn
    figure is the same figure.
    """
    n = len(sums)
    weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (weights @ sums) / (weights @ counts)
        mean = sums.sum(0) / counts.sum(0)
    drawn = np.where(np.isfinite(drawn), drawn, mean)  # none of the drawn images is there
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return Band(mean, low, high)


def by_iteration(trails: Sequence[Sequence[float]]) -> tuple[Band, NDArray[np.int64]]:
    """The mean over the images still there at each iteration, and how many they are; a list of numbers an image."""
    longest = max(map(len, trails))
    values, there = np.zeros((len(trails), longest)), np.zeros((len(trails), longest))
    for row, trail in enumerate(trails):
        values[row, : len(trail)], there[row, : len(trail)] = trail, 1
    return band(values, there), there.sum(0).astype(np.int64)


def pooled(trails: Sequence[Numbers]) -> Band:
    """The mean over all iterations of all images; an array (iterations, k) an image -> (k,)."""
    sums = np.stack([trail.sum(0) for trail in trails])
    return band(sums, np.stack([np.full(sums.shape[1], float(len(trail))) for trail in trails]))
