"""Gradient averaging, Algorithm 2 of the paper (Appendix B): a weighted mean of transfer gradient and RGF estimate."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Flow, note, prior_at
from dowse.errors import fraction
from dowse.estimators.cosine import CosineEstimation
from dowse.estimators.probing import State
from dowse.maths import theory
from dowse.maths.sampling import unit


@dataclass(frozen=True, kw_only=True)
class Averaging(CosineEstimation):
    """μ·v + (1 − μ)·(normalised RGF estimate).

    Cost an iteration: q + 2 with a fixed μ, whose one further query settles v's sign; with μ* 2 where μ* reaches the
    threshold c and q + 2 elsewhere, plus S queries every `norm_period` iterations (2S with an estimated A²).

    Attributes:
        mu: μ, the weight of the transfer gradient; None takes μ* of Eq. (B.4), with a subspace that beside (B.7).
        threshold: c of Algorithm 2: from μ* = c on, v alone is returned.
    """

    name = "averaging"
    paper = "Cheng et al. 2019 (NeurIPS), Algorithm 2"
    cost = "μ*: q+2, or 2 where μ*≥c, plus S or 2S per period; μ: q+2"
    needs_surrogate = True

    mu: float | None = None
    threshold: float = theory.THRESHOLD_C

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(mu=self.mu, threshold=self.threshold)

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """ĝ at x, (*s), of Algorithm 2."""
        v = unit((yield from prior_at(x)))
        state = yield from self.settle_sigma(state, x, f, rng)
        μ = self.mu
        if μ is None:
            (v, α), state = yield from self.cosine(state, x, f, v, rng)  # line 1
            μ = self._optimal(α, state, x.numel())  # lines 2, 3
            yield from note(alpha=α, mu=μ, norm=state.norm, a_square=state.a_square, sigma=state.sigma)
            if μ >= self.threshold:  # line 4
                return v, replace(state, iteration=state.iteration + 1)
        else:
            slope, state = yield from self.slope(state, x, f, v)
            v = -v if slope < 0 else v
            yield from note(mu=μ, sigma=state.sigma)
        probes, state = yield from self.probe(state, x, f, lambda: self.directions(state, self.q, x, rng))
        ĝ = μ * v + (1 - μ) * unit(probes.gradient(x.shape))  # Eqs. (B.1), (B.5)
        return ĝ, replace(state, iteration=state.iteration + 1)

    def _optimal(self, α: float, state: State, D: int) -> float:
        if state.subspace is None:
            return theory.mu_star(α, theory.expected_cosine(D, self.q))  # Eq. (B.4)
        β = theory.expected_cosine_subspace(state.a_square, state.subspace.d, self.q)
        return theory.mu_star_approximate(α, β)  # beside Eq. (B.7)
