"""Views of an image, dimmed and moved at random: gradients through them transfer better.

Moved as in Dong et al. (2019), dimmed after the scaled copies of Lin et al. (2020). Nothing is resampled: that would
blur small images, whose fine grain is what their networks are fooled by.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

DIMMEST = 0.5  # of the light of the image
FARTHEST = 0.04  # of a side


def random_view(x: Tensor, rng: torch.Generator) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The image x, (C, H, W), dimmed and moved, black where it moved away from, and what takes gradients back.

    At least `DIMMEST` of its light is left, and it moves at most `FARTHEST` of each side, at least a pixel, all
    uniformly drawn. The view is linear in x: what is handed back with it takes a gradient at the view, (C, H, W), to
    the one at x.

    >>> view, back = random_view(torch.ones(1, 8, 8), torch.Generator().manual_seed(0))
    >>> view.shape, back(torch.ones(1, 8, 8)).shape
    (torch.Size([1, 8, 8]), torch.Size([1, 8, 8]))
    """
    light = DIMMEST + (1 - DIMMEST) * float(torch.rand((), generator=rng))
    down, right = (_steps(side, rng) for side in x.shape[-2:])
    return light * _moved(x, down, right), lambda gradient: light * _moved(gradient, -down, -right)


def _steps(side: int, rng: torch.Generator) -> int:
    """How many pixels to move along a side, back where negative."""
    most = min(max(round(FARTHEST * side), 1), side - 1)
    return int(torch.randint(2 * most + 1, (), generator=rng)) - most


def _moved(x: Tensor, down: int, right: int) -> Tensor:
    """x, (C, H, W), moved by pixels, zeros behind it."""
    return F.pad(x, (right, -right, down, -down))
