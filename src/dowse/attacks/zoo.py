"""ZOO: coordinate-wise finite differences, Eq. (4) of the paper, and ADAM coordinate ascent (Chen et al. 2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.attacks.adam import Adam, free_part, published_rate
from dowse.attacks.base import Attack
from dowse.core.flow import Flow, ask, check
from dowse.errors import count, positive, positive_or_none
from dowse.maths.geometry import Ball


@dataclass(frozen=True, kw_only=True)
class ZOO(Attack):
    """Slopes along a batch of random coordinates, Eq. (4), and an ADAM step in those. Cost: 2·coordinates + 1 each.

    The parameters are the original's, of its variant ZOO-ADAM. Differences to the original: it minimises distortion
    beside the loss, here f alone is increased inside the ball, by projection, as all others do, and therefore in both
    norms; on the surface of an l2 ball ADAM gets the part of the gradient along it; the original steps in a transformed
    space that keeps images in range, here in pixels; no reduced attack space, no hierarchy and no importance sampling;
    the loss is the run's own, the original's is loss="margin". Probes are clipped to the image range unless
    clip_probes=False, which makes the difference one-sided at a pixel of 0 or 1.

    Attributes:
        coordinates: How many coordinates a step updates; all of them where the image has fewer. A step of 128 costs
            257 queries: take fewer for budgets below some 2,500.
        sigma: How far a probe moves its pixel, h of the original.
        step: ADAM's rate; None is the original's, 0.01 for small images (MNIST, CIFAR-10) and 0.002 for ImageNet.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the original.
    """

    name = "zoo"
    paper = "Chen et al. 2017 (AISec)"
    cost = "2 · coordinates + 1"
    uses_scores = False

    coordinates: int = 128
    sigma: float = 1e-4
    step: float | None = None
    clip_probes: bool = True

    def __post_init__(self) -> None:
        count(coordinates=self.coordinates)
        positive(sigma=self.sigma)
        positive_or_none(step=self.step)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s); ends only from outside."""
        x0, adam, rate = x, Adam.fresh(x), self.step or published_rate(x)
        while True:
            chosen = torch.randperm(x.numel(), generator=rng)[: self.coordinates].to(x.device)
            ĝ = yield from self.slopes(x, chosen)
            step, adam = adam.step(free_part(ĝ, x, x0, ball, chosen), chosen)
            moved = x.flatten().index_add(0, chosen, rate * step).view(x.shape)
            x = ball.project(moved.clamp_(0, 1), x0)
            yield from check(x)

    def slopes(self, x: Tensor, chosen: Tensor) -> Flow[Tensor]:
        """∂f/∂xᵢ at x, (*s), for n chosen coordinates, (n,) -> (n,), Eq. (4), by 2n queries; 0 where nothing moved."""
        n = len(chosen)
        rows = torch.arange(n, device=x.device)
        points = x.expand(2 * n, *x.shape).clone()
        flat = points.view(2 * n, -1)
        flat[rows, chosen] += self.sigma
        flat[n + rows, chosen] -= self.sigma
        if self.clip_probes:
            points.clamp_(0, 1)
        answer = yield from ask(points)
        gap = (flat[rows, chosen] - flat[n + rows, chosen]).to(answer.loss)
        slope = torch.where(gap > 0, (answer.loss[:n] - answer.loss[n:]) / gap, 0.0)  # Eq. (4)
        return slope.to(x)
