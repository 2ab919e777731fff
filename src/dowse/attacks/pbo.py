"""P-BO: Bayesian optimisation whose prior mean is the surrogate's loss (Cheng, Miao, Dong et al. 2024)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from dowse.attacks.base import Attack
from dowse.attacks.gaussian_process import Posterior, fitted
from dowse.core.flow import Flow, Opening, check, look, note, opening, pull
from dowse.errors import count, positive
from dowse.estimators.directions import own_loss, slope_of_loss
from dowse.maths.geometry import L2, Ball, Linf
from dowse.maths.sampling import sphere
from dowse.maths.subspace import Subspace

REACH = 2.5  # of the search space's radius: how far the steps on the acquisition function could go together
LARGEST_SIDE = 32


@dataclass(frozen=True, kw_only=True)
class PBO(Attack):
    """Model f as a Gaussian process around λ times the surrogate's f′ and ask where mean + β·deviation is largest.

    Cost: 1 query an iteration; on the surrogates `starts`·`steps` gradients of each. The search is in images of a small
    grid, up-sampled. Each answer refits the process in closed form: its constant and λ ≥ 0 by generalised least
    squares, its scale by the residuals, its length by the likelihood over a grid (λ stays 1 for the first two answers,
    so that the first query is a transfer example). With several surrogates f′ is the mean of theirs.

    Differences to the original: hyper-parameters come in closed form instead of 50 steps of ADAM every tenth query; the
    acquisition function is climbed from the best point so far and from random ones, 2 × 10 steps where the original has
    20 × 50, which is 1,000 gradients a query; the unchanged image is the first observation, instead of ten random
    ones; l2 searches a ball of the grid's space; of more than `memory` observations the best are kept.

    Attributes:
        beta: β, how much an uncertain point is worth, in standard deviations.
        starts: Points that the acquisition function is climbed from.
        steps: Steps of each climb.
        subspace: Side or (height, width) of the grid; None is half of the image's sides, at most 32.
        memory: The most observations that the process is fitted to.
    """

    name = "pbo"
    paper = "Cheng et al. 2024 (ICML)"
    cost = "1"
    needs_surrogate = True
    looks_inside = True
    loss = "margin"
    uses_scores = False

    beta: float = 3.0
    starts: int = 2
    steps: int = 10
    subspace: int | tuple[int, int] | None = None
    memory: int = 200

    def __post_init__(self) -> None:
        positive(beta=self.beta)
        count(starts=self.starts, steps=self.steps, memory=self.memory)

    def check(self, x: Tensor) -> None:
        """Raise InputError for what is no image, or a grid that does not fit it."""
        self.grid(x)

    def grid(self, x: Tensor) -> Tensor:
        """A zero of the search space for an image like x, (C, H, W) -> (C, h, w)."""
        self.check_image(x)
        half = min(LARGEST_SIDE, max(1, x.shape[1] // 2)), min(LARGEST_SIDE, max(1, x.shape[2] // 2))
        space = Subspace.of(half if self.subspace is None else self.subspace, tuple(x.shape))
        assert space is not None
        return x.new_zeros(space.small)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (C, H, W); ends only from outside."""
        search = Search(x, ball, (yield from opening()))
        z = self.grid(x)
        at, losses, priors = z.unsqueeze(0), [f], [(yield from search.prior(z))]
        while True:
            kept = torch.tensor(losses).argsort(descending=True)[: self.memory].sort().values
            process = fitted(
                at[kept].flatten(1).double().cpu(), torch.tensor(losses, dtype=torch.float64)[kept],
                torch.tensor(priors, dtype=torch.float64)[kept], search.ball.norm,
            )  # fmt: skip
            yield from note(lam=process.weight, length=process.length)
            best = at[int(torch.tensor(losses).argmax())]
            z, prior = yield from self.proposal(search, process, best, rng)
            loss = yield from check(search.image(z))
            at, losses, priors = torch.cat([at, z.unsqueeze(0)]), [*losses, loss], [*priors, prior]

    def proposal(
        self, search: "Search", process: Posterior, best: Tensor, rng: torch.Generator
    ) -> Flow[tuple[Tensor, float]]:
        """The point of the largest mean + β·deviation found, (C, h, w), and the surrogates' f′ there: free."""
        found: list[tuple[float, Tensor, float]] = []
        for start in range(self.starts):
            z = best if start == 0 else search.random(best, rng)
            for _ in range(self.steps):
                slope = process.weight * (yield from search.slope(z)) + process.bonus_slope(z, self.beta)
                z = search.stepped(z, slope, REACH / self.steps)
            prior = yield from search.prior(z)
            found.append((process.mean(z, prior) + self.beta * process.deviation(z), z, prior))
        _, z, prior = max(found, key=lambda one: one[0])
        return z, prior


class Search:
    """The space searched: small images z, (C, h, w), in the unit ball of the norm, and the images they stand for."""

    def __init__(self, x0: Tensor, ball: Ball, known: Opening) -> None:
        self.x0, self.outer, self.known = x0, ball, known
        self.ball: Ball = L2(1.0) if ball.norm == "l2" else Linf(1.0)

    def image(self, z: Tensor) -> Tensor:
        """The image of a point, (C, H, W), in the ball."""
        return self.outer.project(self._moved(z), self.x0)

    def prior(self, z: Tensor) -> Flow[float]:
        """f′, the mean of the surrogates' own losses at a point: free."""
        seen = yield from look(self.image(z))
        return sum(float(own_loss(self.known, one)) for one in seen.values()) / len(seen)

    def slope(self, z: Tensor) -> Flow[Tensor]:
        """∇f′ in the space searched, (C, h, w): free."""
        seen = yield from pull(self.image(z), dict.fromkeys(range(self.known.surrogates), slope_of_loss(self.known)))
        g = torch.stack([one.gradient for one in seen.values() if one.gradient is not None]).mean(0)
        return self.pulled_back(g, z)

    def pulled_back(self, g: Tensor, z: Tensor) -> Tensor:
        """A gradient at the image of a point z, (C, H, W), as one at the point, (C, h, w); none where it is clipped."""
        moved = self._moved(z)
        g = g * ((moved >= 0) & (moved <= 1)) * self.outer.eps
        return self._gathered(g if self.ball.norm == "linf" else g * self._shrink(z), z)

    def stepped(self, z: Tensor, slope: Tensor, length: float) -> Tensor:
        """A step uphill that stays in the unit ball."""
        z = z + length * self.ball.steepest(slope)
        return z.clamp(-1, 1) if self.ball.norm == "linf" else z / max(1.0, float(torch.linalg.vector_norm(z)))

    def random(self, like: Tensor, rng: torch.Generator) -> Tensor:
        """A random point of the unit ball's cube, or of its sphere for l2, (C, h, w)."""
        if self.ball.norm == "l2":
            return sphere(1, like, rng)[0]
        return (2 * torch.rand(like.shape, generator=rng, dtype=torch.float64) - 1).to(like)

    def _moved(self, z: Tensor) -> Tensor:
        """x0 and ε times the up-sampled point; for l2 the up-sampled one is as long as the point."""
        H, W = self.x0.shape[-2:]
        δ = interpolate(z.unsqueeze(0), size=(H, W), mode="nearest")[0]
        if self.ball.norm == "l2":
            δ = δ * self._shrink(z)
        return self.x0 + self.outer.eps * δ

    def _shrink(self, z: Tensor) -> float:
        """How much shorter each pixel of an up-sampled point is for l2."""
        H, W = self.x0.shape[-2:]
        return math.sqrt(z[0].numel() / (H * W))

    def _gathered(self, g: Tensor, z: Tensor) -> Tensor:
        """Of numbers of the pixels, (C, H, W), the sums over those that each number of a point z is up-sampled to."""
        back = torch.ops.aten.upsample_nearest2d_backward
        gathered: Tensor = back(g.unsqueeze(0), g.shape[-2:], (1, *z.shape))[0]
        return gathered
