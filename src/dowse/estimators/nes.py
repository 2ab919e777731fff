"""NES: the natural evolution strategy with antithetic Gaussian directions (Ilyas et al. 2018)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.core.flow import Flow
from dowse.core.method import later
from dowse.errors import InputError, count, positive
from dowse.estimators.base import Estimator
from dowse.estimators.pairs import ask_pairs, pair_count
from dowse.maths.sampling import gaussian


@dataclass(frozen=True, kw_only=True)
class NES(Estimator[Tensor | None]):
    """The average of q/2 central differences along Gaussian directions.

    Cost: q + 1 queries an iteration, q + 1/k with check_every=k.

    Differences to the original: the outer step is that of RGF, so that a table compares estimators, and so is the lack
    of momentum, which its paper does not have either; step=0.01 with momentum=0.9 is the released code's in l∞. Its
    learning rate that shrinks on plateaus is left out. Probes are clipped to the image range unless clip_probes=False.

    Attributes:
        q: Queries of an estimate, both halves counted; even.
        sigma: The standard deviation of a probe, per pixel.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the original.
        momentum: The share of the last estimate in the next one; 0.9 in the original's code.
        check_every: At every which step the iterate is asked about, a query; success is looked for there alone.
    """

    name = "nes"
    paper = "Ilyas et al. 2018 (ICML)"
    cost = "q+1, or q+1/k"
    uses_scores = False
    sigma_per_pixel = True

    q: int = 50
    sigma: float = 1e-3
    clip_probes: bool = True
    momentum: float = later(0.0)
    check_every: int = later(1)

    def __post_init__(self) -> None:
        pair_count(self.q)
        positive(sigma=self.sigma)
        count(check_every=self.check_every)
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum is the share of the last estimate, from 0 to below 1, got {self.momentum}")

    def init(self, x: Tensor) -> Tensor | None:
        """What goes from one iterate, (*s), to the next: with momentum the last estimate, (*s), else nothing."""
        return torch.zeros_like(x) if self.momentum else None

    def estimate(
        self, state: Tensor | None, x: Tensor, f: float, rng: torch.Generator
    ) -> Flow[tuple[Tensor, Tensor | None]]:
        """ĝ at x, (*s): 2/(qσ)·Σ u [f(x + σu) − f(x − σu)]/2 over q/2 directions u ~ N(0, I); f is not needed."""
        directions = gaussian((pair_count(self.q), *x.shape), x, rng)
        pairs = yield from ask_pairs(x, directions, self.sigma, clip=self.clip_probes)
        ĝ = pairs.gradient(x.shape)
        if state is None:
            return ĝ, None
        ĝ = self.momentum * state + (1 - self.momentum) * ĝ
        return ĝ, ĝ
