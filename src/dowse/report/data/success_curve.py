"""Success against queries: the share of images fooled within q queries, with a band around it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dowse.report.data.intervals import wilson

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
