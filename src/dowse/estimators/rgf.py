"""RGF: random gradient-free estimation, Eq. (5) of the paper, with directions uniform on the unit sphere."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Flow
from dowse.estimators.probing import Probing, State


@dataclass(frozen=True, kw_only=True)
class RGF(Probing):
    """The average of q one-sided slopes along random unit directions. Cost: q + 1 queries an iteration."""

    name = "rgf"
    paper = "Cheng et al. 2019 (NeurIPS), Eq. (5)"
    cost = "q+1"

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """ĝ at x, (*s), of Eq. (5)."""
        state = yield from self.settle_sigma(state, x, f, rng)
        probes, state = yield from self.probe(state, x, f, lambda: self.directions(state, self.q, x, rng))
        ĝ = probes.gradient(x.shape)  # Eq. (5)
        return ĝ, replace(state, iteration=state.iteration + 1)
