"""NES: the natural evolution strategy with antithetic Gaussian directions (Ilyas et al. 2018)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.core.flow import Flow
from dowse.errors import positive
from dowse.estimators.base import Estimator
from dowse.estimators.pairs import ask_pairs, pair_count
from dowse.maths.sampling import gaussian


@dataclass(frozen=True, kw_only=True)
class NES(Estimator[None]):
    """The average of q/2 central differences along Gaussian directions. Cost: q + 1 queries an iteration.

    Differences to the original: the outer step is that of RGF, so that a table compares estimators; the released
    code's momentum and its shrinking learning rate are left out, which its paper does not have either; probes are
    clipped to the image range unless clip_probes=False.

    Attributes:
        q: Queries of an estimate, both halves counted; even.
        sigma: The standard deviation of a probe, per pixel.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the original.
    """

    name = "nes"
    paper = "Ilyas et al. 2018 (ICML)"
    cost = "q+1"
    uses_scores = False

    q: int = 50
    sigma: float = 1e-3
    clip_probes: bool = True

    def __post_init__(self) -> None:
        pair_count(self.q)
        positive(sigma=self.sigma)

    def init(self, x: Tensor) -> None:
        """NES carries nothing from one iterate, (*s), to the next."""

    def estimate(self, state: None, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, None]]:
        """ĝ at x, (*s): 2/(qσ)·Σ u [f(x + σu) − f(x − σu)]/2 over q/2 directions u ~ N(0, I); f is not needed."""
        directions = gaussian((pair_count(self.q), *x.shape), x, rng)
        pairs = yield from ask_pairs(x, directions, self.sigma, clip=self.clip_probes)
        return pairs.gradient(x.shape), None
