"""ODS-RGF: RGF whose directions are random mixtures of a surrogate's outputs (Tashiro et al. 2020)."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from dowse.core.flow import Flow, opening, pull
from dowse.estimators.directions import any_surrogate, random_outputs
from dowse.estimators.rgf import RGFFamily, State
from dowse.maths.sampling import sphere, unit


@dataclass(frozen=True, kw_only=True)
class ODSRGF(RGFFamily):
    """The average of q one-sided slopes along ∇ₓ(wᵀz)/‖·‖ of a surrogate, w uniform on [−1, 1]^K.

    Cost: q + 1 queries an iteration, and on the surrogate a forward and q backward passes. With several surrogates each
    iteration takes one of them at random.

    Differences to the original: probes are clipped to the image range unless clip_probes=False; where f does not move
    at all σ doubles and the same directions are asked again; where an output has no gradient, its direction is a
    random one.

    Attributes:
        q: Directions an estimate averages over, each a query; 10 as in Lord et al. (2022).
    """

    name = "ods-rgf"
    paper = "Tashiro et al. 2020 (NeurIPS)"
    cost = "q+1"
    needs_surrogate = True
    looks_inside = True

    q: int = 10
    subspace: int | tuple[int, int] | None = field(default=None, init=False)  # directions are the surrogate's

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """ĝ at x, (*s)."""
        known = yield from opening()
        surrogate = any_surrogate(known, rng)
        u = yield from self.outputs(x, surrogate, rng)
        state = yield from self.settle(state, x, f, rng)
        probes, state = yield from self.probe(state, x, f, lambda: u.clone())
        return probes.gradient(x.shape), state.next

    def outputs(self, x: Tensor, surrogate: int, rng: torch.Generator) -> Flow[Tensor]:
        """q unit directions ∇ₓ(wᵀz) at x, (*s) -> (q, *s): free."""
        gradients = (yield from pull(x, {surrogate: random_outputs(rng, self.q)}))[surrogate].gradient
        assert gradients is not None
        flat = ~gradients.flatten(1).any(1)
        if flat.any():
            gradients[flat] = sphere(int(flat.sum()), x, rng)
        return unit(gradients, batched=True)
