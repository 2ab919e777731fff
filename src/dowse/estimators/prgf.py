"""P-RGF: prior-guided random gradient-free estimation, Algorithm 1 of the paper (NeurIPS 2019)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Flow, note, prior_at
from dowse.errors import InputError, fraction
from dowse.estimators.cosine import CosineEstimation
from dowse.estimators.probing import State
from dowse.maths import theory
from dowse.maths.sampling import biased, unit


@dataclass(frozen=True, kw_only=True)
class PRGF(CosineEstimation):
    """RGF with directions biased towards the transfer gradient v as much as theory says.

    Cost an iteration: q + 1 with a fixed λ; with λ* 2 where λ* = 1 and q + 2 elsewhere, plus S queries every
    `norm_period` iterations (2S with a subspace whose A² is estimated).

    Differences to the paper: probes are clipped to the image range unless clip_probes=False, half of them then along
    −u, which is the same slope; and σ grows where f is flat (the paper's released code does that too).

    Attributes:
        lam: λ, the share of the transfer gradient in each direction; None takes λ* of Eq. (12) or (18).
        exact_subspace: Sample by the remark in A.6, whose directions are exactly orthogonal to v.
    """

    name = "prgf"
    paper = "Cheng et al. 2019 (NeurIPS), Algorithm 1"
    cost = "λ*: q+2, or 2 where λ*=1, plus S or 2S per period; λ: q+1"
    needs_surrogate = True

    lam: float | None = None
    exact_subspace: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(lam=self.lam)
        if self.exact_subspace and self.subspace is None:
            raise InputError("exact_subspace=True is about the data-dependent prior: give subspace= too")

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """ĝ at x, (*s), of Algorithm 1."""
        v = unit((yield from prior_at(x)))
        state = yield from self.settle_sigma(state, x, f, rng)
        λ = self.lam
        if λ is None:
            (v, α), state = yield from self.cosine(state, x, f, v, rng)  # line 1
            λ = self._optimal(α, state, x.numel())  # line 2
            yield from note(alpha=α, lam=λ, norm=state.norm, a_square=state.a_square, sigma=state.sigma)
            if λ == 1:  # line 3
                return v, replace(state, iteration=state.iteration + 1)
        else:
            yield from note(lam=λ, sigma=state.sigma)
        probes, state = yield from self.probe(
            state,
            x,
            f,
            lambda: self._biased(state, x, v, λ, rng),
        )
        ĝ = probes.gradient(x.shape)  # lines 10, 12: Eq. (5)
        return ĝ, replace(state, iteration=state.iteration + 1)

    def base_directions(self, state: State, n: int, x: Tensor, v: Tensor, rng: torch.Generator) -> Tensor:
        """n unit directions of the whole space, of the subspace, or of its part orthogonal to v, (n, *s)."""
        if self.exact_subspace and state.subspace is not None:
            return state.subspace.sphere_orthogonal(n, v, rng)
        return self.directions(state, n, x, rng)

    def _biased(self, state: State, x: Tensor, v: Tensor, λ: float, rng: torch.Generator) -> Tensor:
        """q directions u of Eq. (11) or (19), (q, *s); where probes are clipped every second one is −u.

        u and −u ask for the same slope. But clipping shifts all probes off the ends of the range alike, and if all of
        them leaned to v the slope of that shift would be taken for v's.
        """
        u = biased(v, λ, self.base_directions(state, self.q, x, v, rng))  # lines 8, 9: Eq. (11), (19)
        if self.clip_probes:
            u[1::2].neg_()
        return u

    def _optimal(self, α: float, state: State, D: int) -> float:
        if state.subspace is None:
            return theory.lambda_star(α**2, D, self.q)  # Eq. (12)
        return theory.lambda_star_subspace(α**2, state.a_square, state.subspace.d, self.q)  # Eq. (18)
