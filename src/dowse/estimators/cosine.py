"""How well the transfer gradient points: α by Sec. 3.3 and A² by Appendix C, for P-RGF and for averaging."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Flow
from dowse.errors import InputError, count, fraction, positive_or_none
from dowse.estimators.rgf import RGFFamily, State
from dowse.maths import theory
from dowse.maths.sampling import sphere


@dataclass(frozen=True, kw_only=True)
class CosineEstimation(RGFFamily):
    """The parameters of estimating α and A².

    Attributes:
        norm_samples: S, the probes that estimate ‖∇f‖, and as many more for A².
        norm_period: Iterations between two such estimates.
        a_square: A² if it is known; None estimates it as in Appendix C.
        gamma: A² = gamma·d/D instead, as the authors' code has it (3.5 there).
    """

    norm_samples: int = 10
    norm_period: int = 10
    a_square: float | None = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        count(norm_samples=self.norm_samples, norm_period=self.norm_period)
        fraction(a_square=self.a_square)
        positive_or_none(gamma=self.gamma)
        if self.a_square is not None and self.gamma is not None:
            raise InputError("a_square= and gamma= both say what A² is: give one of them")
        if self.subspace is None and (self.a_square is not None or self.gamma is not None):
            raise InputError("a_square= and gamma= are about the data-dependent prior: give subspace= too")

    def cosine(
        self, state: State, x: Tensor, f: float, v: Tensor, rng: torch.Generator
    ) -> Flow[tuple[Tensor, float, State]]:
        """v, flipped where f falls along it, (*s), and its cosine α in [0, 1] to ∇f at x, Sec. 3.3.

        Where σ grew while the norm was measured, v's slope is asked again, for both must be seen at one σ. Where f is
        flat in every direction the transfer gradient is all there is to follow, so α is 1.
        """
        slope, state = yield from self.slope(state, x, f, v)
        if state.iteration % self.norm_period == 0:
            σ = state.sigma
            state = yield from self._norm(state, x, f, rng)
            state = yield from self._a_square(state, x, f, v, rng)
            if state.sigma != σ:
                slope, state = yield from self.slope(state, x, f, v)
        if slope < 0:
            v, slope = -v, -slope
        α = min(1.0, slope / state.norm) if state.norm > 0 else float(v.any())  # Eq. (8)
        return v, α, state

    def slope(self, state: State, x: Tensor, f: float, v: Tensor) -> Flow[tuple[float, State]]:
        """vᵀ∇f at x by one query; a surrogate without a gradient has slope 0 and costs nothing."""
        if not v.any():
            return 0.0, state
        probes, state = yield from self.probe(state, x, f, lambda: v.unsqueeze(0).clone())
        return float(probes.slope[0]), state  # Eq. (13)

    def base_directions(self, n: int, x: Tensor, v: Tensor, rng: torch.Generator) -> Tensor:
        """n unit directions before any bias towards v, uniform in the whole space or in the subspace, (n, *s)."""
        return self.uniform(n, x, rng)

    def _norm(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[State]:
        """‖∇f‖ at x by S probes along w₁, …, w_S, uniform in the whole space."""
        probes, state = yield from self.probe(state, x, f, lambda: sphere(self.norm_samples, x, rng))
        return replace(state, norm=theory.gradient_norm(probes.slope, x.numel()))  # Eq. (16)

    def _a_square(self, state: State, x: Tensor, f: float, v: Tensor, rng: torch.Generator) -> Flow[State]:
        """A² at x, once its norm is known: as it is given, or by S probes along w₁, …, w_S, uniform in the subspace."""
        space = self.space(x)
        if space is None:
            return state
        if self.a_square is not None:
            return replace(state, a_square=self.a_square)
        if self.gamma is not None:
            return replace(state, a_square=min(1.0, self.gamma * space.d / x.numel()))
        probes, state = yield from self.probe(state, x, f, lambda: self.base_directions(self.norm_samples, x, v, rng))
        return replace(state, a_square=theory.a_square(probes.slope, space.d, state.norm))  # App. C
