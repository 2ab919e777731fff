"""Patterns over a whole image that confuse networks nobody has looked into: stripes and checkerboards."""

import torch
from torch import Tensor

from dowse.attacks.square import random_signs

STRIPES = 112  # a side has so many stripes, each at least a pixel wide
CELLS = (28, 56, 37)  # a side of the checkerboards has so many cells, each at least a pixel wide
PATTERNS = 1 + len(CELLS)  # each kind once
ALONE = 1 + 3 * len(CELLS)  # where nothing better is known: other colours fool one image in ten that the first did not


def may_repeat(x0: Tensor) -> bool:
    """Whether patterns of x0, (C, H, W), often come twice: grey ones have two forms, and in small ones kinds of cells
    have one size. Elsewhere one of ten does, for three draws of a kind may have the same colours.

    >>> [may_repeat(torch.zeros(shape)) for shape in ((1, 224, 224), (3, 96, 96), (3, 224, 224))]
    [True, True, False]
    """
    return len(x0) == 1 or min(x0.shape[1:]) < 4 * min(CELLS)


def pattern(which: int, x0: Tensor, rng: torch.Generator) -> Tensor:
    """The pattern numbered `which` in ±1, (C, H, W): 0 vertical stripes of random signs, then checkerboards in turn.

    Stripes have a sign for each colour, a checkerboard's colours are turned at random. What fools a network most is
    its own affair: fine checks for 32 × 32, stripes two pixels wide or checks of four to eight for 224 × 224.

    >>> pattern(1, torch.zeros(1, 2, 3), torch.Generator().manual_seed(0)).abs()
    tensor([[[1., 1., 1.],
             [1., 1., 1.]]])
    """
    C, H, W = x0.shape
    if which == 0:
        width = max(1, W // STRIPES)
        signs = random_signs((C, 1, -(-W // width)), x0, rng)
        return signs.repeat_interleave(width, 2)[:, :, :W].expand(C, H, W)
    cell = max(1, min(H, W) // CELLS[(which - 1) % len(CELLS)])
    rows, columns = torch.arange(H) // cell, torch.arange(W) // cell
    return random_signs((C, 1, 1), x0, rng) * (1 - 2 * ((rows[:, None] + columns) % 2)).to(x0)
