"""Gradient averaging, Algorithm 2 of the paper (Appendix B), line by line: transfer gradient and RGF estimate, weighed.

Its loop over i is one tensor here: q directions are drawn, asked about and averaged at once.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.core.flow import Flow, note, prior_at
from dowse.errors import fraction
from dowse.estimators.cosine import CosineEstimation
from dowse.estimators.rgf import State
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
        """ĝ at x, (*s), by Algorithm 2; a fixed μ takes the place of lines 1 to 6, but for v's sign."""
        D, q, space = x.numel(), self.q, self.space(x)
        v = unit((yield from prior_at(x)))
        state = yield from self.settle(state, x, f, rng)  # σ, where it has grown: not in the paper
        if self.mu is None:
            v, α, state = yield from self.cosine(state, x, f, v, rng)  # line 1: Sec. 3.3
            if space is None:
                β = theory.expected_cosine(D, q)  # line 2
                μ = theory.mu_star(α, β)  # line 3: Eq. (B.4)
            else:
                β = theory.expected_cosine_subspace(state.a_square, space.d, q)  # line 2: App. B.1
                μ = theory.mu_star_approximate(α, β)  # line 3: beside Eq. (B.7)
            yield from note(alpha=α, mu=μ, norm=state.norm, a_square=state.a_square, sigma=state.sigma)
            if μ >= self.threshold:  # line 4
                return v, state.next  # line 5
        else:
            μ = self.mu
            slope, state = yield from self.slope(state, x, f, v)
            v = -v if slope < 0 else v
            yield from note(mu=μ, sigma=state.sigma)

        def directions() -> Tensor:
            return self.uniform(q, x, rng)  # line 9

        probes, state = yield from self.probe(state, x, f, directions)  # line 10: [f(x + σu) − f(x)] / σ
        if self.mu is None:
            state = self.tracked(state, x, probes, 0.0, torch.ones(q))
        ĝ_U = probes.gradient(x.shape)  # lines 7, 8, 10, 11: the mean of slope · u, Eq. (5)
        return μ * v + (1 - μ) * unit(ĝ_U), state.next  # line 12: Eq. (B.1), with a subspace Eq. (B.5)
