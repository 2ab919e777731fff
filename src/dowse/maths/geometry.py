"""The balls an attack must stay in, and the steepest step inside their norm: the geometry of Eq. (3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, get_args

import torch
from torch import Tensor

from dowse.errors import choose, positive
from dowse.maths.radius import paper_radius
from dowse.maths.sampling import unit
from dowse.settings import Norm

AT_ONCE = 2**18  # numbers of points that are looked at together: 85 images of 3×32×32, one of 3×224×224


class Ball(Protocol):
    """A ball of radius eps around an image, intersected with the image range [0, 1]."""

    @property
    def eps(self) -> float:
        """The radius ε."""

    @property
    def norm(self) -> Norm:
        """The norm's name."""

    def steepest(self, g: Tensor) -> Tensor:
        """The direction of unit norm that gains most along g: (*s) -> (*s); zero for a zero g."""

    def project(self, x: Tensor, x0: Tensor) -> Tensor:
        """A point of the ball around x0 and of [0, 1] near x, and x itself if it is one: (*s) -> (*s)."""

    def distance(self, x: Tensor, x0: Tensor) -> Tensor:
        """‖x − x0‖ of each row: (n, *s), (*s) or a centre for each, (n, *s) -> (n,) float64 on the CPU."""


@dataclass(frozen=True)
class L2:
    """The Euclidean ball of radius eps.

    >>> ball, x0 = L2(0.5), torch.tensor([0.9, 0.5])
    >>> ball.steepest(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    >>> ball.project(torch.tensor([0.9, 1.5]), x0)
    tensor([0.9000, 1.0000])
    """

    eps: float
    norm: Norm = "l2"

    def steepest(self, g: Tensor) -> Tensor:
        """g / ‖g‖₂, the d that maximises gᵀd over ‖d‖₂ ≤ 1: (*s) -> (*s)."""
        return unit(g)

    def project(self, x: Tensor, x0: Tensor) -> Tensor:
        """Shrink x − x0 to length eps, then clip: a point of the ball and of [0, 1], (*s) -> (*s).

        Each half is a nearest point, of the ball and of the cube, and clipping leads towards x0, which lies in [0, 1],
        so it stays in the ball. It is not the problem min ‖z − x‖ over z in both: that would give the pixels which the
        cube leaves free all the length that the clipped ones cannot use. Here the nearest is (1, 0.99):

        >>> L2(0.5).project(torch.tensor([1.9, 1.0]), torch.tensor([0.9, 0.5]))
        tensor([1.0000, 0.7236])

        Rounding may carry a point out of the ball again, so the radius gives way until what is returned lies inside.
        """
        length = self._length(x, x0)
        if length <= self.eps:
            return x.clamp(0, 1)
        radius, slack = self.eps, self.eps * torch.finfo(x.dtype).eps
        while radius > 0:
            projected = (x - x0).mul_(radius / length).add_(x0).clamp_(0, 1)
            if self._length(projected, x0) <= self.eps:
                return projected
            radius, slack = radius - slack, 2 * slack
        return x0.clone()

    def distance(self, x: Tensor, x0: Tensor) -> Tensor:
        """Euclidean length of each row's displacement."""
        length: Tensor = torch.linalg.vector_norm(_displacement(x, x0), dim=1)
        return length

    def _length(self, x: Tensor, x0: Tensor) -> float:
        """As `distance` of one point, (*s), in half of its steps: every projection takes it."""
        return float(torch.linalg.vector_norm((x.double() - x0).cpu().flatten()))


@dataclass(frozen=True)
class Linf:
    """The maximum-norm ball of radius eps.

    >>> ball, x0 = Linf(0.1), torch.tensor([0.5, 0.95])
    >>> ball.steepest(torch.tensor([3.0, -0.1]))
    tensor([ 1., -1.])
    >>> ball.project(torch.tensor([0.7, 2.0]), x0)
    tensor([0.6000, 1.0000])
    """

    eps: float
    norm: Norm = "linf"

    def steepest(self, g: Tensor) -> Tensor:
        """sign(g), a d that maximises gᵀd over ‖d‖∞ ≤ 1: (*s) -> (*s)."""
        return g.sign()

    def project(self, x: Tensor, x0: Tensor) -> Tensor:
        """Clip each pixel to x0 ± eps and to [0, 1]: min ‖z − x‖ over z in both, in any norm, (*s) -> (*s).

        Up to rounding: the radius is a few units in the last place below eps, so that no pixel is outside.
        """
        radius = _inside(self.eps, x.dtype)
        return torch.clamp(x, x0 - radius, x0 + radius).clamp_(0, 1)

    def distance(self, x: Tensor, x0: Tensor) -> Tensor:
        """Largest displacement of a pixel, of each row."""
        return _displacement(x, x0).abs().amax(1)


def within(z: Tensor, x: Tensor, radius: float, norm: Norm) -> Tensor:
    """z brought within a radius of x, whatever the image range: (*s), (*s) -> (*s).

    >>> within(torch.tensor([4.0, 3.0]), torch.zeros(2), 1.0, "l2")
    tensor([0.8000, 0.6000])
    """
    δ = z - x
    if norm == "linf":
        return x + δ.clamp(-radius, radius)
    return x + δ * min(1.0, radius / max(float(δ.norm()), 1e-12))


def corner(eps: float, x0: Tensor, signs: Tensor) -> Tensor:
    """The corner of the l∞ ball that lies towards signs ±1, in [0, 1]: Π(x0 + eps·signs), bit by bit, in fewer steps.

    >>> corner(0.1, torch.tensor([0.5, 0.95, 0.5]), torch.tensor([1.0, 1.0, -1.0]))
    tensor([0.6000, 1.0000, 0.4000])
    """
    return torch.add(x0, signs, alpha=_inside(eps, x0.dtype)).clamp_(0, 1)


def contains(ball: Ball, points: Tensor, x0: Tensor) -> Tensor:
    """Which rows lie in the ball around x0 and in [0, 1]: (n, *s), (*s) -> (n,) bool on the CPU.

    >>> x0 = torch.tensor([0.9, 0.5])
    >>> contains(L2(0.5), torch.tensor([[0.9, 0.9], [1.1, 0.5], [0.3, 0.5]]), x0)
    tensor([ True, False, False])
    """
    flat = points.flatten(1)
    in_range = (flat.amin(1) >= 0) & (flat.amax(1) <= 1)
    return in_range.cpu() & (ball.distance(points, x0) <= ball.eps)


def copies_inside(ball: Ball, points: Sequence[Tensor], centres: Sequence[Tensor]) -> list[Tensor | None]:
    """A copy of each point, (*s), that lies in the ball around its own centre and in [0, 1]; None for all others.

    Many rows may be summed in another order than one, so whoever lies as near to the border as that could matter is
    asked about alone: nobody's verdict depends on the others. Copies share memory with their neighbours'.

    >>> copies_inside(Linf(0.1), [torch.full((2,), 0.55), torch.full((2,), 0.7)], 2 * [torch.full((2,), 0.5)])
    [tensor([0.5500, 0.5500]), None]
    """
    copies: list[Tensor | None] = []
    at_once = max(1, AT_ONCE // max(1, points[0].numel())) if points else 1
    for start in range(0, len(points), at_once):
        rows, around = torch.stack(list(points[start : start + at_once])), centres[start : start + at_once]
        in_range = _in_range(rows)
        distances = ball.distance(rows, around[0] if len(around) == 1 else torch.stack(list(around))).tolist()
        for row, x0, possible, distance in zip(rows, around, in_range, distances, strict=True):
            if possible and abs(distance - ball.eps) <= 1e-9 * ball.eps:
                possible = bool(contains(ball, row.unsqueeze(0), x0))
            else:
                possible = possible and distance <= ball.eps
            copies.append(row if possible else None)
    return copies


def _in_range(rows: Tensor) -> list[bool]:
    """Which rows, (n, *s), lie in [0, 1]; looked at one by one only where not all do."""
    least, most = rows.aminmax()
    if float(least) >= 0 and float(most) <= 1:
        return [True] * len(rows)
    flat = rows.flatten(1)
    each: list[bool] = ((flat.amin(1) >= 0) & (flat.amax(1) <= 1)).tolist()
    return each


def make_ball(norm: Norm, eps: float | None, dimension: int) -> Ball:
    """The ball of a norm's name; eps=None is the paper's: √(0.001·D) for l2, 0.05 for l∞ (Sec. 4, App. D).

    >>> make_ball("l2", None, dimension=3 * 224 * 224)
    L2(eps=12.26..., norm='l2')
    >>> make_ball("linf", 8 / 255, dimension=3 * 224 * 224).eps
    0.03137...
    """
    choose("norm", norm, get_args(Norm))
    if eps is None:
        eps = paper_radius(norm, dimension)
    positive(eps=eps)
    return L2(eps) if norm == "l2" else Linf(eps)


def default_step(ball: Ball) -> float:
    """PGD's step η: the paper's 2 for l2 (for small images ours: min(2, ε/6)) and ε/10 for l∞.

    >>> default_step(L2(12.27)), default_step(L2(0.6))
    (2.0, 0.09...)
    """
    return min(2.0, ball.eps / 6) if ball.norm == "l2" else ball.eps / 10


def _displacement(x: Tensor, x0: Tensor) -> Tensor:
    """x − x0, (n, *s) and (*s) or (n, *s) -> (n, D), in float64: in float32 a long vector's length is off by 1e-4."""
    return x.to("cpu", torch.float64, copy=True).sub_(x0.cpu()).flatten(1)


@lru_cache
def _inside(eps: float, dtype: torch.dtype) -> float:
    """A radius so little below eps that rounding cannot carry a clipped pixel out of the ball."""
    return max(eps - 8 * torch.finfo(dtype).eps * max(1.0, eps), 0.0)
