"""How many rows of a target go in one pass: the usual number, unless another is clearly faster on this machine."""

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor

from dowse.core.packing import default_batch_size

SECONDS = 0.5  # for all of it; every number is tried twice in any case
CLEARLY = 1.05  # so many times as fast another number must be, to be taken
TURNS = 2


class Tuned(NamedTuple):
    """Rows of a pass, and how many times as fast they are as the usual number."""

    rows: int
    gain: float


def tune_rows(
    ask: Callable[[Tensor], object], images: Tensor, clock: Callable[[], float] = perf_counter, seconds: float = SECONDS
) -> Tuned:
    """Try half, once and twice the usual number of rows by turns, the best time of each.

    Args:
        ask: The target, for points (n, *s).
        images: Some of the run's, (m, *s).
        clock: Seconds, from any start.
        seconds: How long to try.
    """
    usual = default_batch_size(images)
    sizes = (usual, usual // 2, usual * 2)
    points = images.repeat(-(-sizes[-1] // len(images)), *[1] * (images.ndim - 1))
    best = dict.fromkeys(sizes, float("inf"))
    begun, turns = clock(), 0
    with torch.no_grad():
        while turns < TURNS or clock() - begun < seconds:
            for rows in sizes:
                start = clock()
                ask(points[:rows])
                best[rows] = min(best[rows], (clock() - start) / rows)
            turns += 1
    fastest = min(sizes, key=best.__getitem__)
    gain = best[usual] / best[fastest] if best[fastest] > 0 else 1.0
    return Tuned(fastest, gain) if gain >= CLEARLY else Tuned(usual, 1.0)
