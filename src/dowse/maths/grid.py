"""The 8-bit grid: rounding to it towards an original, and balls whose points are 8-bit images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dowse.errors import InputError
from dowse.maths.geometry import Ball, contains
from dowse.settings import Norm

LEVELS = 255
LEVEL = 1 / LEVELS
_SLACK = 1e-3  # of a level: what rounding of floats may take off a value that lies on the grid


def on_grid(x: Tensor) -> Tensor:
    """The nearest 8-bit values of pixels in [0, 1], as a picture file would hold them: any shape -> uint8.

    >>> on_grid(torch.tensor([0.0, 0.5, 0.7, 1.0]))
    tensor([  0, 128, 178, 255], dtype=torch.uint8)
    """
    return x.detach().mul(LEVELS).round_().clamp_(0, LEVELS).to(torch.uint8)


def pixels(levels: Tensor, like: Tensor) -> Tensor:
    """8-bit values as pixels in [0, 1] of the dtype and on the device of `like`, as a picture file is read.

    >>> pixels(torch.tensor([0, 51, 255], dtype=torch.uint8), like=torch.zeros(1))
    tensor([0.0000, 0.2000, 1.0000])
    """
    return levels.to(like).div_(LEVELS)


def snapped(x: Tensor) -> Tensor:
    """The nearest 8-bit image, (*s) -> (*s).

    >>> snapped(torch.tensor([0.2, 0.2005]))
    tensor([0.2000, 0.2000])
    """
    return pixels(on_grid(x), x)


def towards(x: Tensor, x0: Tensor) -> Tensor:
    """The 8-bit values nearest to x on x0's side of it: (*s) -> uint8 on the CPU.

    If x0 lies on the grid, no pixel moves away from it, so what lies in a ball around x0 stays in it.

    >>> towards(torch.tensor([101.9, 98.1]) / 255, x0=torch.tensor([100.0, 100.0]) / 255)
    tensor([101,  99], dtype=torch.uint8)
    """
    levels, original = (pixels.detach().cpu().double() * LEVELS for pixels in (x, x0))
    down, up = (levels + _SLACK).floor(), (levels - _SLACK).ceil()
    return torch.where(levels > original, down, up).clamp_(0, LEVELS).to(torch.uint8)


def check_on_grid(x: Tensor) -> None:
    """Raise InputError unless the image x, (*s), is one that 8 bits can hold.

    >>> check_on_grid(torch.tensor([0.2, 1.0]))
    >>> check_on_grid(torch.tensor([0.2005, 1.0]))
    Traceback (most recent call last):
    dowse.errors.InputError: quantize=True keeps an 8-bit image 8-bit, and this one is off the grid ...
    """
    off = float((x - pixels(on_grid(x), x)).abs().max())
    if off > _SLACK * LEVEL:
        raise InputError(
            f"quantize=True keeps an 8-bit image 8-bit, and this one is off the grid of k/255 by {off:.1e}: "
            "round it first, (x * 255).round() / 255"
        )


def grid_options(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What of a method's options has another default on the grid: a probe shorter than a level would not be seen.

    >>> grid_options({"q": 50, "sigma": 1e-4}), grid_options({"q": 50})
    ({'sigma': 0.00392...}, {})
    """
    return {"sigma": LEVEL} if "sigma" in defaults else {}


@dataclass(frozen=True)
class GridBall:
    """A ball whose points are 8-bit images.

    >>> from dowse.maths.geometry import Linf
    >>> x0 = torch.tensor([100.0, 100.0]) / 255
    >>> GridBall(Linf(8 / 255)).project(torch.tensor([103.4, 200.0]) / 255, x0) * 255
    tensor([103., 108.])

    Attributes:
        ball: The ball they lie in.
    """

    ball: Ball

    @property
    def eps(self) -> float:
        """The radius ε."""
        return self.ball.eps

    @property
    def norm(self) -> Norm:
        """The norm's name."""
        return self.ball.norm

    def steepest(self, g: Tensor) -> Tensor:
        """As the ball's own: (*s) -> (*s)."""
        return self.ball.steepest(g)

    def project(self, x: Tensor, x0: Tensor) -> Tensor:
        """The grid point nearest to the ball's projection; if that lies outside, the one towards x0: (*s) -> (*s).

        It is a point of both; the nearest one to x in both, a lattice problem, it need not be.
        """
        inside = self.ball.project(x, x0)
        nearest = pixels(on_grid(inside), x)
        if bool(contains(self, nearest.unsqueeze(0), x0)):
            return nearest
        return pixels(towards(inside, x0), x)

    def distance(self, x: Tensor, x0: Tensor) -> Tensor:
        """‖x − x0‖ of each row, exact for points of the grid, so that 8/255 is not more than 8/255."""
        return self.ball.distance(on_grid(x).double(), on_grid(x0).double()) / LEVELS
