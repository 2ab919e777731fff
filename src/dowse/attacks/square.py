"""The Square Attack: random search with squares of shrinking size, no gradient at all (Andriushchenko et al. 2020)."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Flow, check
from dowse.errors import count, fraction
from dowse.maths.geometry import Ball, corner

SCHEDULE = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)  # of 10,000 iterations: after each of them p halves
START = {"l2": 0.1, "linf": 0.05}  # the paper's p for ImageNet
TILES = 5  # the l2 attack starts from 5 × 5 bumps
TRIES = 20  # draws of a square that would change nothing, before it is asked about all the same


@dataclass(frozen=True, kw_only=True)
class Square(Attack):
    """Change one square window at a time and keep what makes f larger. Cost: 1 query an iteration.

    For l∞ it starts from vertical stripes of ±ε and sets a window to ±ε, colour by colour (Algorithm 2). For l2 it
    starts from 5 × 5 bumps and moves the mass of one window into another, shaped as a bump η (Algorithm 3, Eq. (2)).

    Differences to the original: every image has its own random stream, where the released l2 code shares the windows
    of a batch; windows may touch the lower and the right border; the schedule of p is that of `horizon` iterations,
    for an attack does not know its budget, and p stays at its least after them; l2 windows are no larger than the
    image; a window whose drawing would change nothing is drawn again at most 20 times. The query of the unchanged image
    is counted, the original does not count it.

    Attributes:
        p: The share of pixels a window has at the start; None is the paper's for ImageNet, 0.1 for l2, 0.05 for l∞.
        horizon: The iterations that the schedule of p is stretched to, the paper's budget.
    """

    name = "square"
    paper = "Andriushchenko et al. 2020 (ECCV)"
    cost = "1"
    few_rows = True
    loss = "margin"
    targeted_loss = "ce"
    uses_scores = False

    p: float | None = None
    horizon: int = 10_000

    def __post_init__(self) -> None:
        fraction(p=self.p)
        count(horizon=self.horizon)

    check = Attack.check_image

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (C, H, W); ends only from outside."""
        x0, iteration = x, 0
        start, propose = (_bumps, moved_mass) if ball.norm == "l2" else (stripes, painted)
        x = ball.project(start(x0, ball, rng), x0)
        f = yield from check(x)
        while True:
            side = self.side(iteration, x0, ball)
            proposal = propose(x, x0, side, ball, rng)
            loss = yield from check(proposal)
            if loss > f:
                x, f = proposal, loss
            iteration += 1

    def side(self, iteration: int, x: Tensor, ball: Ball) -> int:
        """The side of the window at an iteration, √(p·H·W) rounded; for l2 odd and at least 3; x is (C, H, W)."""
        halved = bisect_left(SCHEDULE, int(iteration * 10_000 / self.horizon))
        _, H, W = x.shape
        return _side((START[ball.norm] if self.p is None else self.p) / 2**halved, H, W, ball.norm)


@lru_cache(maxsize=256)
def _side(p: float, H: int, W: int, norm: str) -> int:
    side = round(math.sqrt(p * H * W))
    if norm == "l2":
        side = max(side, 3)
        return min(side + 1 - side % 2, H, W)
    return max(1, min(side, H - 1, W - 1))


def stripes(x0: Tensor, ball: Ball, rng: torch.Generator) -> Tensor:
    """±ε in vertical stripes one pixel wide, colour by colour."""
    C, _, W = x0.shape
    return x0 + ball.eps * random_signs((C, 1, W), x0, rng)


def painted(x: Tensor, x0: Tensor, side: int, ball: Ball, rng: torch.Generator) -> Tensor:
    """x with one window at ±ε, a sign for each colour (Algorithm 2)."""
    window, proposal = random_window(x, side, rng), x.clone()
    old, centre = x[window], x0[window]
    for _ in range(TRIES):
        new = corner(ball.eps, centre, random_signs((x.shape[0], 1, 1), x, rng))
        if not torch.equal(new, old):
            break
    proposal[window] = new
    return proposal


def _bumps(x0: Tensor, ball: Ball, rng: torch.Generator) -> Tensor:
    """A grid of 5 × 5 bumps of random sign and turn, colour by colour, of length ε together."""
    C, H, W = x0.shape
    side, δ = max(1, min(H, W) // TILES), torch.zeros_like(x0)
    top, left = (H % side) // 2, (W % side) // 2
    for row in range(top, H - side + 1, side):
        for column in range(left, W - side + 1, side):
            δ[:, row : row + side, column : column + side] = bump(side, x0, rng) * random_signs((C, 1, 1), x0, rng)
    return x0 + ball.eps / float(torch.linalg.vector_norm(δ)) * δ


def moved_mass(x: Tensor, x0: Tensor, side: int, ball: Ball, rng: torch.Generator) -> Tensor:
    """x with the mass of two windows, and what clipping had left over, in the first of them (Algorithm 3)."""
    δ, C, ε = x - x0, x.shape[0], ball.eps
    first, second = random_window(x, side, rng), random_window(x, side, rng)
    squares = δ.square()
    both = torch.zeros_like(x)
    both[first], both[second] = squares[first], squares[second]
    unused = max(0.0, ε**2 - float(squares.sum()))
    mass = both.sum((1, 2)).add_(unused / C).sqrt_()  # per colour
    new = bump(side, x, rng) * random_signs((C, 1, 1), x, rng) + _per_colour_unit(δ[first])
    δ[second] = 0
    δ[first] = _per_colour_unit(new) * mass.view(C, 1, 1)
    length = float(torch.linalg.vector_norm(δ))
    return ball.project(x0 + δ * (ε / length) if length > 0 else x0 + δ, x0)


def bump(side: int, like: Tensor, rng: torch.Generator) -> Tensor:
    """η of Eq. (2): two pyramids of opposite sign side by side, turned half of the time, (side, side), ‖η‖ = 1."""
    turned = bool(torch.randint(2, (1,), generator=rng))
    return _bump(side, turned, like.dtype, like.device)


@lru_cache(maxsize=64)
def _bump(side: int, turned: bool, dtype: torch.dtype, device: torch.device) -> Tensor:
    """η, made once: whoever gets it leaves it as it is."""
    half = side // 2
    η = torch.cat([_pyramid(half, side), -_pyramid(side - half, side)])
    return (η.T if turned else η).div(torch.linalg.vector_norm(η)).to(device, dtype)


def _pyramid(height: int, width: int) -> Tensor:
    """Σ of 1/(k+1)² over the rings k around the centre from a pixel's own outwards, (height, width), of length one."""
    rows, columns = (torch.arange(height) - height // 2).abs(), (torch.arange(width) - width // 2).abs()
    ring = torch.maximum(rows[:, None], columns)
    outermost = max(height // 2, width // 2)
    steps = 1 / torch.arange(1, outermost + 2, dtype=torch.float64).square()
    outwards = steps.flip(0).cumsum(0).flip(0)
    values = outwards[ring]
    length = torch.linalg.vector_norm(values)
    return values / length if len(values) else values


def random_window(x: Tensor, side: int, rng: torch.Generator) -> tuple[slice, slice, slice]:
    """A square window of all colours, anywhere in an image like x."""
    H, W = x.shape[-2:]
    if H == W:  # one call draws the same two numbers as two calls
        row, column = torch.randint(H - side + 1, (2,), generator=rng).tolist()
    else:
        row, column = (int(torch.randint(whole - side + 1, (1,), generator=rng)) for whole in (H, W))
    return slice(None), slice(row, row + side), slice(column, column + side)


def random_signs(shape: tuple[int, ...], like: Tensor, rng: torch.Generator) -> Tensor:
    """±1 with equal chance, in the dtype and on the device of `like`."""
    return torch.randint(2, shape, generator=rng, dtype=like.dtype).mul_(2).sub_(1).to(like.device)


def _per_colour_unit(δ: Tensor) -> Tensor:
    """Each colour brought to length one, (C, h, w); zero stays zero."""
    length = torch.linalg.vector_norm(δ, dim=(1, 2), keepdim=True)
    return δ / torch.where(length > 0, length, 1)
