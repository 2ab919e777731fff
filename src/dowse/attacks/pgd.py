"""Projected gradient descent, Eq. (3) of the paper, on an estimated gradient."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dowse.attacks.adapter import as_estimator
from dowse.attacks.base import Attack
from dowse.core.flow import Flow, check
from dowse.core.method import take_facts
from dowse.estimators.base import Estimator
from dowse.maths.geometry import Ball
from dowse.settings import Norm


@dataclass(frozen=True)
class PGD(Attack):
    """An estimator made an attack; what it is and needs is what the estimator is and needs.

    The check of an iterate is the f(x) that the next estimate starts from, so an iteration costs the estimate plus one.
    An estimator that needs no f(x) may have its iterates checked more rarely (`check_every`); those between cost
    nothing beside their estimates, and cannot succeed.

    Attributes:
        estimator: What estimates ∇f.
        step: η of Eq. (3); None is the estimator's own, `default_step(ball)`.
    """

    estimator: Estimator[Any]
    step: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimator", as_estimator(self.estimator))
        take_facts(self, self.estimator)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s), by Eq. (3): steps along estimates of ∇f inside the ball; ends only from outside."""
        x0, η, state = x, self.step or self.estimator.default_step(ball), self.estimator.init(x)
        iteration = 0
        while True:
            ĝ, state = yield from self.estimator.estimate(state, x, f, rng)
            x = ball.project(x + ball.steepest(ĝ).mul_(η), x0)  # Eq. (3)
            iteration += 1
            if iteration % self.estimator.check_every == 0:
                f = yield from check(x)

    def check(self, x: Tensor) -> None:
        """Raise what the estimator has against an image like x, (*s), before any query."""
        self.estimator.check(x)

    def check_run(self, *, norm: Norm, targeted: bool) -> None:
        """Raise what the estimator has against a run."""
        self.estimator.check_run(norm=norm, targeted=targeted)
