"""One-sided probes around an iterate: what is really sent, and the slopes of f that it shows, Eqs. (5) and (13)."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from dowse.core.flow import Flow, ask


@dataclass(frozen=True)
class Probes:
    """What n probes x + δ showed.

    Attributes:
        displacement: δ, what was added to x, clipping included, (n, D); without clipping it is σu.
        length: ‖δ‖, (n,) float64.
        rise: f(x + δ) − f(x), (n,) float64.
    """

    displacement: Tensor
    length: Tensor
    rise: Tensor

    @cached_property
    def slope(self) -> Tensor:
        """[f(x + δ) − f(x)] / ‖δ‖, (n,) float64; zero where nothing was added."""
        return torch.where(self.length > 0, self.rise / self.length, 0.0)  # Eq. (13)

    def gradient(self, shape: torch.Size) -> Tensor:
        """ĝ, the mean of slope times unit displacement, as a tensor of the given shape (*s)."""
        weight = self.slope / self.length.clamp_min(torch.finfo(torch.float64).tiny) / len(self.slope)
        return (weight.to(self.displacement) @ self.displacement).view(shape)  # Eq. (5)


def ask_probes(x: Tensor, f: float, directions: Tensor, sigma: float, *, clip: bool) -> Flow[Probes]:
    """Ask about x + σ√D·u for unit directions u, (n, *s), where f = f(x): costs n queries. They are consumed.

    σ is a length per pixel. With `clip` every probe is an image, in [0, 1], and what clipping took off is taken off δ.
    """
    points = directions.mul_(sigma * math.sqrt(x.numel())).add_(x)
    if clip:
        points.clamp_(0, 1)
    answer = yield from ask(points)
    displacement = points.sub_(x).flatten(1)
    length = torch.linalg.vector_norm(displacement, dim=1).to("cpu", torch.float64)
    return Probes(displacement, length, answer.loss - f)
