"""P-RGF: prior-guided random gradient-free estimation, Algorithm 1 of the paper (NeurIPS 2019), line by line.

Its loop over i is one tensor here: q directions are drawn, asked about and averaged at once.
"""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from dowse.core.flow import Flow, note, prior_at
from dowse.core.method import later
from dowse.errors import InputError, fraction
from dowse.estimators.cosine import CosineEstimation
from dowse.estimators.rgf import State
from dowse.maths import theory
from dowse.maths.sampling import biased, unit


@dataclass(frozen=True, kw_only=True)
class PRGF(CosineEstimation):
    """RGF with directions biased towards the transfer gradient v as much as theory says.

    Cost an iteration: q + 1 with a fixed λ; with λ* 2 where λ* = 1 and q + 2 elsewhere, plus S queries every
    `norm_period` iterations (2S with a subspace whose A² is estimated).

    Differences to the paper: probes are clipped to the image range unless clip_probes=False, half of them then along
    −u, which is the same slope; and σ grows where f is flat (the paper's released code does that too).

    preset="lean" is q = 10, as Lord et al. (2022) run it: fewer queries where the transfer gradient is good.
    preset="steady" is for targets that answer with noise: it takes the noise off ‖∇f‖ and lets σ follow it.

    Attributes:
        lam: λ, the share of the transfer gradient in each direction; None takes λ* of Eq. (12) or (18).
        exact_subspace: Sample by the remark in A.6, whose directions are exactly orthogonal to v.
        before_fix: λ* with a subspace as the authors' code had it until 2023-09-09.
    """

    name = "prgf"
    paper = "Cheng et al. 2019 (NeurIPS), Algorithm 1"
    cost = "λ*: q+2, or 2 where λ*=1, plus S or 2S per period; λ: q+1"
    needs_surrogate = True
    presets = MappingProxyType({
        "lean": MappingProxyType({"q": 10}),
        "steady": MappingProxyType({"noise_samples": 2, "follow_noise": True}),
    })  # fmt: skip

    lam: float | None = None
    exact_subspace: bool = False
    before_fix: bool = later(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(lam=self.lam)
        if self.exact_subspace and self.subspace is None:
            raise InputError("exact_subspace=True is about the data-dependent prior: give subspace= too")
        if self.before_fix and self.subspace is None:
            raise InputError("before_fix=True is about λ* with the data-dependent prior: give subspace= too")

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """ĝ at x, (*s), by Algorithm 1; a fixed λ takes the place of lines 1 to 5."""
        D, q, space = x.numel(), self.q, self.space(x)
        v = unit((yield from prior_at(x)))
        state = yield from self.settle(state, x, f, rng)  # σ, where it has grown: not in the paper
        if self.lam is None:
            v, α, state = yield from self.cosine(state, x, f, v, rng)  # line 1: Sec. 3.3
            if space is None:
                λ = theory.lambda_star(α**2, D, q)  # line 2: Eq. (12)
            elif self.before_fix:
                λ = theory.lambda_star_before_fix(α**2, state.a_square, space.d, q, D)
            else:
                λ = theory.lambda_star_subspace(α**2, state.a_square, space.d, q)  # line 2: Eq. (18)
            yield from note(alpha=α, lam=λ, norm=state.norm, a_square=state.a_square, sigma=state.sigma)
            if λ == 1:  # line 3
                return v, state.next  # line 4
        else:
            λ = self.lam
            yield from note(lam=λ, sigma=state.sigma)

        def directions() -> Tensor:
            ξ = self.base_directions(q, x, v, rng)  # line 8
            u = biased(v, λ, ξ)  # line 9: Eq. (11), with a subspace Eq. (19)
            return _alternating(u) if self.clip_probes else u

        probes, state = yield from self.probe(state, x, f, directions)  # line 10: [f(x + σu) − f(x)] / σ
        ĝ = probes.gradient(x.shape)  # lines 6, 7, 10 to 12: the mean of slope · u, Eq. (5)
        if self.lam is None:
            signs = torch.ones(q)
            state = self.tracked(state, x, probes, λ, _alternating(signs) if self.clip_probes else signs)
        return ĝ, state.next

    def base_directions(self, n: int, x: Tensor, v: Tensor, rng: torch.Generator) -> Tensor:
        """n unit directions of the whole space, of the subspace, or of its part orthogonal to v, (n, *s)."""
        space = self.space(x)
        if space is not None and self.exact_subspace:
            return space.sphere_orthogonal(n, v, rng)
        return self.uniform(n, x, rng)


def _alternating(u: Tensor) -> Tensor:
    """Directions u, (n, *s), every second one made −u in place, for probes that are clipped.

    u and −u ask for the same slope. But clipping shifts all probes off the ends of the range alike, and if all of them
    leaned to v the slope of that shift would be taken for v's. So would what else all probes have in common: the
    curvature of f along v, and the error of f(x) on a noisy target (docs/decisions/0002).
    """
    u[1::2].neg_()
    return u
