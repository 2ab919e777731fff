"""Pairs of probes on opposite sides of an iterate, for the methods that send each direction with its negative."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.core.flow import Flow, ask
from dowse.errors import InputError, count


@dataclass(frozen=True)
class Pairs:
    """What n pairs of probes x ± σu showed.

    Attributes:
        displacement: From the second probe of a pair to the first, clipping included, (n, D); else it is 2σu.
        rise: f at the first probe minus f at the second, (n,) float64.
        sigma: σ, per pixel.
    """

    displacement: Tensor
    rise: Tensor
    sigma: float

    def gradient(self, shape: torch.Size) -> Tensor:
        """The mean of (rise / 2σ)·u, with u = displacement / 2σ, as a tensor of the given shape (*s)."""
        weight = self.rise / (4 * self.sigma**2 * len(self.rise))
        return (weight.to(self.displacement) @ self.displacement).view(shape)


def ask_pairs(x: Tensor, directions: Tensor, sigma: float, *, clip: bool) -> Flow[Pairs]:
    """Ask about x + σu and x − σu for directions u, (n, *s), any length: costs 2n queries. They are consumed."""
    n = len(directions)
    step = directions.mul_(sigma)
    points = torch.cat([x + step, x - step])
    if clip:
        points.clamp_(0, 1)
    answer = yield from ask(points)
    displacement = points[:n].sub_(points[n:]).flatten(1)
    return Pairs(displacement, answer.loss[:n] - answer.loss[n:], sigma)


def pair_count(q: int) -> int:
    """How many pairs q queries make; an odd q is an InputError."""
    count(q=q)
    if q % 2:
        raise InputError(f"q counts both probes of each pair and must be even, got {q}: take {q - 1 or 2} or {q + 1}")
    return q // 2
