"""BASES: the transfer attack on a weighted ensemble, and a search over the weights on the target (Cai et al. 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Flow, Opening, check, note, opening, pull
from dowse.errors import count, positive, positive_or_none
from dowse.estimators.directions import own_margin
from dowse.maths.geometry import Ball

REACH = 3.0  # of ε: how far the inner steps could go together, the paper's


@dataclass(frozen=True, kw_only=True)
class BASES(Attack):
    """PGD on Σ wₛ·marginₛ of the surrogates, and coordinate search over w: one weight up, down, the better of the two.

    Cost: 1 query for equal weights, 2 a weight; on the surrogates `steps` gradients of each a query (Algorithms 1, 2).
    The inner attack goes on from the image that the weights before led to. It is for several surrogates; with one, the
    weight changes nothing, and every query is `steps` more steps on the surrogate.

    It draws nothing at random. Differences to the original: l2 steps along the gradient, where the released code steps
    along its sign in both norms; a weight's change is a share of its equal weight, 0.05/S, the released 0.005 at ten
    surrogates; weights do not fall below zero; an image that was asked about just before is not asked about again, and
    where all weights in turn lead to no other the attack gives up, as it soon does with one surrogate in l∞.

    Attributes:
        steps: Steps of the inner attack, each a gradient of every surrogate.
        rate: How far a weight moves, as a share of 1/S.
        step: The length of an inner step in the ball's norm; None is 3ε/steps.
    """

    name = "bases"
    paper = "Cai et al. 2022 (NeurIPS)"
    cost = "2 a weight"
    needs_surrogate = True
    looks_inside = True
    loss = "margin"
    uses_scores = False

    steps: int = 10
    rate: float = 0.05
    step: float | None = None

    def __post_init__(self) -> None:
        count(steps=self.steps)
        positive(rate=self.rate)
        positive_or_none(step=self.step)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s); ends from outside, or where no weight leads anywhere else."""
        x0, known = x, (yield from opening())
        S = known.surrogates
        w = torch.full((S,), 1 / S, dtype=torch.float64)
        x = yield from self.perturbed(x, x0, w, known, ball)
        f = yield from check(x)
        turn = turns_at_x = 0
        while turns_at_x < S:
            up, down = (w.clone() for _ in range(2))
            up[turn] += self.rate / S
            down[turn] = max(0.0, float(w[turn]) - self.rate / S)
            higher = yield from self.perturbed(x, x0, up, known, ball)
            f_higher = yield from check_new(higher, (x, f))
            lower = yield from self.perturbed(x, x0, down, known, ball)
            f_lower = yield from check_new(lower, (x, f), (higher, f_higher))
            turns_at_x = turns_at_x + 1 if torch.equal(higher, x) and torch.equal(lower, x) else 0
            x, f, w = (higher, f_higher, up) if f_higher >= f_lower else (lower, f_lower, down)
            yield from note(weight=float(w[turn]), turn=float(turn))
            turn = (turn + 1) % S
        return x

    def perturbed(self, x: Tensor, x0: Tensor, w: Tensor, known: Opening, ball: Ball) -> Flow[Tensor]:
        """PGD from x, (*s), on the weighted margins of the surrogates (Algorithm 1, its perturbation machine): free."""
        η = self.step or REACH * ball.eps / self.steps
        for _ in range(self.steps):
            seen = yield from pull(x, dict.fromkeys(range(len(w)), own_margin(known)))
            g = torch.zeros_like(x)
            for surrogate, one in seen.items():
                assert one.gradient is not None
                g += float(w[surrogate]) * one.gradient
            x = ball.project(x + η * ball.steepest(g), x0)
        return x


def check_new(x: Tensor, *known: tuple[Tensor, float]) -> Flow[float]:
    """f at x, (*s): that of an equal one of the images known, or else asked for, 1 query."""
    for point, f in known:
        if torch.equal(point, x):
            return f
    return (yield from check(x))
