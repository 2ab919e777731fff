"""The two ends of the scale: the surrogate's gradient with no feedback, and the target's own gradient."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Flow, check, gradient_at, prior_at
from dowse.errors import count, positive_or_none
from dowse.maths.geometry import Ball, default_step


@dataclass(frozen=True, kw_only=True)
class Straight(Attack):
    """What both share: steps along a gradient that needs no estimate, then a look at the last iterate.

    Attributes:
        step: η of Eq. (3); None is the paper's for the ball's norm.
    """

    uses_scores = False

    steps: int
    step: float | None = None

    def __post_init__(self) -> None:
        count(steps=self.steps)
        positive_or_none(step=self.step)

    def climb(self, x: Tensor, ball: Ball, gradient: Callable[[Tensor], Flow[Tensor]]) -> Flow[Tensor]:
        """The last iterate of PGD from x, (*s), along a gradient."""
        x0, η = x, self.step or default_step(ball)
        for _ in range(self.steps):
            g = yield from gradient(x)
            x = ball.project(x + η * ball.steepest(g), x0)  # Eq. (3)
        yield from check(x)
        return x


@dataclass(frozen=True, kw_only=True)
class Transfer(Straight):
    """PGD on the surrogate alone, its last iterate asked about once. Cost: 1 query in all after the image's own.

    Attributes:
        steps: Steps on the surrogate.
    """

    name = "transfer"
    paper = "PGD on the surrogate, no feedback"
    cost = "1 in all"
    needs_surrogate = True

    steps: int = 20

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s)."""
        return (yield from self.climb(x, ball, prior_at))


@dataclass(frozen=True, kw_only=True)
class WhiteBox(Straight):
    """PGD on the target's own gradient, for reference. Cost: 1 query an iteration, a forward and a backward pass.

    Attributes:
        steps: Steps before it gives up.
    """

    name = "whitebox"
    paper = "Madry et al. 2018, Eq. (3)"
    cost = "1"
    whitebox = True

    steps: int = 100

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s)."""
        return (yield from self.climb(x, ball, gradient_at))
