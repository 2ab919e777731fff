"""ZOO: coordinate-wise finite differences, Eq. (4) of the paper, and ADAM coordinate ascent (Chen et al. 2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.attacks.adam import Adam, free_part, published_rate
from dowse.attacks.base import Attack
from dowse.core.flow import Flow, ask, check
from dowse.core.method import later
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

    Its reach: ADAM moves a coordinate by about its rate, so a step of n coordinates is rate·√n long and costs 2n + 1
    queries, and a budget B takes an l2 image at most rate·√(B/2) far where no coordinate is drawn twice, whatever n is.
    At ImageNet size that is 0.14 for B = 10,000, where the paper's ε is 12.3: no budget of ours lets it succeed there.

    Attributes:
        coordinates: How many coordinates a step updates; all of them where the image has fewer. A step of 128 costs
            257 queries; fewer make more and shorter steps and reach as far.
        sigma: How far a probe moves its pixel, h of the original.
        step: ADAM's rate; None is the original's, 0.01 for small images (MNIST, CIFAR-10) and 0.002 for ImageNet.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the original.
        check_every: At every which step the iterate is asked about, a query; success is looked for there alone.
    """

    name = "zoo"
    paper = "Chen et al. 2017 (AISec)"
    cost = "2 · coordinates + 1, or + 1/k"
    uses_scores = False

    coordinates: int = 128
    sigma: float = 1e-4
    step: float | None = None
    clip_probes: bool = True
    check_every: int = later(1)

    def __post_init__(self) -> None:
        count(coordinates=self.coordinates, check_every=self.check_every)
        positive(sigma=self.sigma)
        positive_or_none(step=self.step)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s); ends only from outside."""
        x0, adam, rate = x, Adam.fresh(x), self.step or published_rate(x)
        iteration = 0
        while True:
            chosen = torch.randperm(x.numel(), generator=rng)[: self.coordinates].to(x.device)
            ĝ = yield from self.slopes(x, chosen)
            step, adam = adam.step(free_part(ĝ, x, x0, ball, chosen), chosen)
            moved = x.flatten().index_add(0, chosen, rate * step).view(x.shape)
            x = ball.project(moved.clamp_(0, 1), x0)
            iteration += 1
            if iteration % self.check_every == 0:
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
