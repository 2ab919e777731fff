"""A displacement that waxes and wanes over the image: which of its parts are worth their length."""

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from dowse.maths.geometry import Ball
from dowse.maths.sampling import unit

GRID = 7  # a side of the random numbers that a wave is drawn from, so few that some dozen answers say which way to go


def rippled(x: Tensor, x0: Tensor, step: float, ball: Ball, rng: torch.Generator) -> Tensor:
    """x, (C, H, W), with some places and colours of δ = x − x0 made stronger at the cost of others, of length ε again.

    The step, of length `step` before that, is δ times a random smooth wave; where nothing was moved yet, the wave.

    >>> from dowse.maths.geometry import L2
    >>> ball = L2(0.5)
    >>> x0, rng = torch.full((3, 16, 16), 0.5), torch.Generator().manual_seed(0)
    >>> z = rippled(x0, x0, 0.1, ball, rng)
    >>> ball.distance(z[None], x0).round(decimals=3)
    tensor([0.5000], dtype=torch.float64)
    """
    C, H, W = x.shape
    small = torch.randn(1, C, min(GRID, H), min(GRID, W), generator=rng, dtype=x.dtype).to(x.device)
    wave = interpolate(small, size=(H, W), mode="bilinear", align_corners=False)[0]
    δ = x - x0
    δ = δ + step * unit(δ * wave if δ.any() else wave)
    return ball.project(x0 + ball.eps * unit(δ), x0)
