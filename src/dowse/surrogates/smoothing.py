"""The transfer gradient smoothed, for targets behind a defence."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor


def smoothed(g: Tensor, side: int) -> Tensor:
    """Each channel convolved with a Gaussian of side×side pixels that spans ±3σ, zeros beyond the border.

    The gradient of a translation-invariant attack (Dong et al. 2019, CVPR, Eq. (8)): (n, C, H, W) -> the same.
    """
    channels, kernel = g.shape[1], _gaussian(side).to(g)
    g = F.conv2d(g, kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1), padding=(side // 2, 0), groups=channels)
    return F.conv2d(g, kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1), padding=(0, side // 2), groups=channels)


@lru_cache
def _gaussian(side: int) -> Tensor:
    """A Gaussian at `side` points from −3σ to 3σ that sums to one; the square kernel is its outer product."""
    density = torch.exp(-0.5 * torch.linspace(-3, 3, side, dtype=torch.float64) ** 2)
    return density / density.sum()
