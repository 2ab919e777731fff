"""GFCS: gradients of surrogates first, directions of their co-image second (Lord et al. 2022), and SimBA-ODS."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Answer, Flow, examine, note, opening
from dowse.errors import positive_or_none
from dowse.estimators.directions import ods, pulled, towards_goal
from dowse.maths.geometry import Ball, default_step
from dowse.maths.sampling import is_zero


@dataclass(frozen=True, kw_only=True)
class Stepwise(Attack):
    """What both share: steps of one length along a surrogate's directions, kept where f rises.

    Attributes:
        step: The length of a step in the ball's norm; None is the method's own.
    """

    cost = "1 or 2 a direction"
    needs_surrogate = True
    looks_inside = True
    few_rows = True
    loss = "margin"
    targeted_loss = "ce"

    step: float | None = None

    def __post_init__(self) -> None:
        positive_or_none(step=self.step)


@dataclass(frozen=True, kw_only=True)
class GFCS(Stepwise):
    """Step ± along a surrogate's gradient of the margin, one surrogate after another; when none pays, along ODS.

    Cost: 1 query a step tried, so 1 or 2 a direction. A step that raises f is kept, and all surrogates, in a new random
    order, have their turn again. Where every one of them has failed at an iterate, the directions are ∇ₓ(wᵀz) of a
    random surrogate with w uniform on [−1, 1]^K, until one of them is kept.

    The margin pulled is the label's to the class that the *target* puts next to it, as its last answer says.

    Differences to the original: l∞, which it does not have, steps along the sign of the gradient; the step for small
    images is ε/6; where a surrogate's output has no gradient at all, an ODS direction is a random one, and a margin
    without one is passed over.

    Attributes:
        step: The length of a step in the ball's norm; None is the paper's 2 for l2 (ε/6 for small images), ε/10 for l∞.
    """

    name = "gfcs"
    paper = "Lord et al. 2022 (ICLR)"

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s); ends only from outside."""
        x0, known = x, (yield from opening())
        at, η = Iterate(x, f, known.answer), self.step or default_step(ball)
        while True:
            better = None
            for surrogate in torch.randperm(known.surrogates, generator=rng).tolist():
                direction = yield from pulled(at.x, surrogate, towards_goal(known, at.answer))
                if is_zero(direction):
                    continue  # a step along it is none, and would be two queries about where the attack stands
                better = yield from step_along(direction, at, x0, η, ball)
                if better is not None:
                    break
            yield from note(gradient=float(better is not None))
            while better is None:
                direction = yield from ods(at.x, known, rng)
                better = yield from step_along(direction, at, x0, η, ball)
            at = better


@dataclass(frozen=True, kw_only=True)
class SimBAODS(Stepwise):
    """Step ± along ∇ₓ(wᵀz) of a random surrogate, w uniform on [−1, 1]^K, and keep what raises f (Tashiro et al. 2020).

    Cost: 1 query a step tried, so 1 or 2 a direction.

    Differences to the original: it has no ball and steps of 0.2; here iterates stay in the ball, by projection, and the
    step is the one that Lord et al. (2022) run it with, 2 for l2 (ε/6 for small images); l∞ steps along the sign;
    where a surrogate's output has no gradient at all, the direction is a random one.

    Attributes:
        step: The length of a step in the ball's norm; None is 2 for l2 (ε/6 for small images), ε/10 for l∞.
    """

    name = "simba-ods"
    paper = "Tashiro et al. 2020 (NeurIPS)"
    uses_scores = False

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s); ends only from outside."""
        x0, known = x, (yield from opening())
        at, η = Iterate(x, f, known.answer), self.step or default_step(ball)
        while True:
            direction = yield from ods(at.x, known, rng)
            at = (yield from step_along(direction, at, x0, η, ball)) or at


@dataclass(frozen=True)
class Iterate:
    """Where an attack stands: x, (*s), f there, and the target's answer about it."""

    x: Tensor
    f: float
    answer: Answer


def step_along(direction: Tensor, at: Iterate, x0: Tensor, η: float, ball: Ball) -> Flow[Iterate | None]:
    """Try a step of length η along a direction, (*s), and one against it; the first that raises f, None if none does.

    Costs 1 or 2 queries.
    """
    step = η * ball.steepest(direction)
    for sign in (1, -1):
        x = ball.project(torch.add(at.x, step, alpha=sign), x0)
        answer = yield from examine(x)
        if (f := float(answer.loss)) > at.f:
            return Iterate(x, f, answer)
    return None
