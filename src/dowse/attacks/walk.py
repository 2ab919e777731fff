"""Steps along RGF's estimates, taken whether f rises or falls: what the attack `dowse` turns to in a long search."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Answer, Flow, examine
from dowse.estimators.rgf import RGF, State
from dowse.maths.geometry import Ball
from dowse.maths.grid import LEVEL, GridBall
from dowse.maths.sampling import is_zero, sphere

PATIENCE = 150  # moves of the arms before the first step
BLOCK = 44  # queries after which it is asked anew who goes on: four steps, or so many moves
TRIALS = 2  # blocks that a walk has before it is judged
LEAST = 0.15  # chance that neither falls below
NEWEST = 0.5  # share of the newest block in a running mean
PROBES = 10  # q of an estimate
SMALL = 56  # a side up to which so few probes tell enough


ESTIMATOR = RGF(q=PROBES)
ON_GRID = RGF(q=PROBES, sigma=LEVEL)  # where a shorter probe would be the image itself


def pays(x0: Tensor, norm: str) -> bool:
    """Whether walks were seen to pay beside arms with a surrogate, for images like x0, (C, H, W): small ones, in l2.

    >>> pays(torch.zeros(3, 32, 32), "l2"), pays(torch.zeros(3, 224, 224), "l2"), pays(torch.zeros(3, 32, 32), "linf")
    (True, False, False)
    """
    return norm == "l2" and max(x0.shape[1:]) <= SMALL


@dataclass(frozen=True)
class Pace:
    """Which share of what is missing, −f, a block has gained a query: the running mean over blocks.

    Attributes:
        speed: That mean.
        blocks: How many there were.
    """

    speed: float = 0.0
    blocks: int = 0

    def after(self, before: float, f: float, queries: int) -> "Pace":
        """With a block of so many queries more, in which f rose from `before` to f.

        >>> Pace().after(-2.0, -1.0, 10).after(-1.0, -1.0, 10).speed
        0.025
        """
        new = (f - before) / max(-before, 1e-12) / max(queries, 1)
        return Pace(new if not self.blocks else self.speed + NEWEST * (new - self.speed), self.blocks + 1)


def walks(walk: Pace, arms: Pace, rng: torch.Generator) -> bool:
    """Whether the next block is the walk's, with a chance in proportion to its pace.

    >>> walks(Pace(), Pace(1.0, 1), torch.Generator())  # it has yet to be tried
    True
    """
    if walk.blocks < TRIALS:
        return True
    fast, other = max(walk.speed, 0.0), max(arms.speed, 0.0)
    chance = fast / (fast + other) if fast + other > 0 else 0.5
    return float(torch.rand((), generator=rng)) < min(max(chance, LEAST), 1 - LEAST)


@dataclass(frozen=True)
class Walk:
    """Where a walk stands.

    Attributes:
        x0: The image, (*s).
        ball: The ball around it.
        x: The last point, (*s), which is not the best one.
        f: f there.
        estimator: What makes a step of probes.
        state: The estimator's.
    """

    x0: Tensor
    ball: Ball
    x: Tensor
    f: float
    estimator: RGF
    state: State

    @classmethod
    def begin(cls, x0: Tensor, ball: Ball, x: Tensor, f: float) -> "Walk":
        """From x, (*s), inside the ball around x0."""
        estimator = ON_GRID if isinstance(ball, GridBall) else ESTIMATOR
        return cls(x0, ball, x, f, estimator, estimator.init(x0))

    def step(self, rng: torch.Generator) -> Flow[tuple["Walk", Answer]]:
        """One estimate and one step, at random where f is flat; where it leads, and the answer about it.

        Cost: q + 1 queries, and what it takes to find a σ at which f moves.
        """
        ĝ, state = yield from self.estimator.estimate(self.state, self.x, self.f, rng)  # Eq. (5)
        ĝ = sphere(1, self.x, rng)[0] if is_zero(ĝ) else ĝ
        η = self.estimator.default_step(self.ball)
        x = self.ball.project(self.x + η * self.ball.steepest(ĝ), self.x0)  # Eq. (3)
        answer = yield from examine(x)
        return replace(self, x=x, f=float(answer.loss[0]), state=state), answer
