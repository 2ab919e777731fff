"""SPSA: simultaneous perturbation by random signs, with ADAM on the perturbation (Uesato et al. 2018)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.attacks.adam import Adam, free_part
from dowse.attacks.base import Attack
from dowse.core.flow import Flow, check
from dowse.core.method import later
from dowse.errors import count, positive, positive_or_none
from dowse.estimators.pairs import ask_pairs, pair_count
from dowse.maths.geometry import Ball, default_step
from dowse.maths.sampling import rademacher


@dataclass(frozen=True, kw_only=True)
class SPSA(Attack):
    """Central differences along q/2 Rademacher directions, ADAM, projection. Cost: q + 1 queries an iteration.

    Differences to the original: q = 50 is ours, because the original's 8192 directions a step cost 16,384 queries,
    more than a whole budget of 10,000; the original is for l∞ only, so the step for l2 is ours: ADAM's rate is chosen
    such that its first step, which moves all pixels alike, is as long as PGD's, and on the surface of the ball it gets
    the part of the gradient along it; the loss is the run's own, the original's is loss="margin"; probes are clipped to
    the image range unless clip_probes=False.

    Attributes:
        q: Queries of an estimate, both halves counted; even.
        sigma: The perturbation size per pixel, δ of the original.
        step: The length of ADAM's first step in the ball's norm; None is the original's 0.01 for l∞, PGD's for l2.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the original.
        check_every: At every which step the iterate is asked about, a query; success is looked for there alone.
    """

    name = "spsa"
    paper = "Uesato et al. 2018 (ICML)"
    cost = "q+1, or q+1/k"
    uses_scores = False
    sigma_per_pixel = True

    q: int = 50
    sigma: float = 0.01
    step: float | None = None
    clip_probes: bool = True
    check_every: int = later(1)

    def __post_init__(self) -> None:
        pair_count(self.q)
        count(check_every=self.check_every)
        positive(sigma=self.sigma)
        positive_or_none(step=self.step)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s); ends only from outside."""
        x0, adam, rate = x, Adam.fresh(x), self._rate(ball, x.numel())
        iteration = 0
        while True:
            ĝ = yield from self.gradient(x, rng)
            step, adam = adam.step(free_part(ĝ, x, x0, ball))
            x = ball.project((x + rate * step).clamp_(0, 1), x0)
            iteration += 1
            if iteration % self.check_every == 0:
                yield from check(x)

    def gradient(self, x: Tensor, rng: torch.Generator) -> Flow[Tensor]:
        """ĝ at x, (*s), by q queries."""
        directions = rademacher((pair_count(self.q), *x.shape), x, rng)
        pairs = yield from ask_pairs(x, directions, self.sigma, clip=self.clip_probes)
        return pairs.gradient(x.shape)

    def _rate(self, ball: Ball, D: int) -> float:
        if ball.norm == "linf":
            return self.step or 0.01
        return (self.step or default_step(ball)) / math.sqrt(D)
