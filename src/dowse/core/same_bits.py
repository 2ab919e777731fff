"""Whether a network answers a row with the same bits in passes of different sizes, seen by trying."""

from collections.abc import Iterable

import torch
from torch import Tensor

from dowse.core.target import Target


def same_bits(target: Target, like: Tensor, rows: int, fewer: Iterable[int]) -> bool:
    """Whether so many images of noise have the same scores in one pass as in passes of fewer, each number tried.

    Args:
        target: From points to scores.
        like: Points of the run's shape and precision, (n, *s).
        rows: How many images.
        fewer: Rows of the smaller passes; the last one of them has what is left.

    The order in which a layer sums does not depend on values, so what holds for noise holds for photographs, on this
    machine and with as many threads. These rows are neither queries nor sent, as the copies that fill up passes.
    """
    noise = torch.rand(rows, *like.shape[1:], generator=torch.Generator().manual_seed(0), dtype=like.dtype)
    try:
        with torch.no_grad():
            together = target(noise)
            apart = (torch.cat([target(part) for part in torch.split(noise, size)]) for size in fewer)
            return all(torch.equal(together, scores) for scores in apart)
    except Exception:  # whatever it has against noise, it is asked as before
        return False
