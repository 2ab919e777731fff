"""How well the transfer gradient points: α by Sec. 3.3 and A² by Appendix C, for P-RGF and for averaging.

`noise_samples`, `track_norm` and `follow_noise` are beyond the paper and off unless asked for (docs/methods/prgf.md).
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Flow, ask
from dowse.core.method import later
from dowse.errors import InputError, count, fraction, positive_or_none
from dowse.estimators.noise import LOUD
from dowse.estimators.probing import Probes
from dowse.estimators.rgf import RGFFamily, State
from dowse.maths import theory
from dowse.maths.sampling import is_zero, sphere


@dataclass(frozen=True, kw_only=True)
class CosineEstimation(RGFFamily):
    """The parameters of estimating α and A².

    Attributes:
        norm_samples: S, the probes that estimate ‖∇f‖, and as many more for A².
        norm_period: Iterations between two such estimates.
        a_square: A² if it is known; None estimates it as in Appendix C.
        gamma: A² = gamma·d/D instead, as the authors' code has it (3.5 there).
        noise_samples: How often x itself is asked again at each such estimate: its spread is the target's noise, which
            is taken off Eq. (16). A target that says the same is not asked again. 0 is the paper's.
        track_norm: Take ‖∇f‖ also from the q probes of every estimate, which are paid for anyway.
        follow_noise: Let σ double until f's rise along v stands out of the noise; needs noise_samples.
    """

    norm_samples: int = 10
    norm_period: int = 10
    a_square: float | None = None
    gamma: float | None = None
    noise_samples: int = later(0)
    track_norm: bool = later(False)
    follow_noise: bool = later(False)

    def __post_init__(self) -> None:
        super().__post_init__()
        count(norm_samples=self.norm_samples, norm_period=self.norm_period)
        fraction(a_square=self.a_square)
        positive_or_none(gamma=self.gamma)
        if self.a_square is not None and self.gamma is not None:
            raise InputError("a_square= and gamma= both say what A² is: give one of them")
        if self.subspace is None and (self.a_square is not None or self.gamma is not None):
            raise InputError("a_square= and gamma= are about the data-dependent prior: give subspace= too")
        if self.noise_samples != 0:
            count(noise_samples=self.noise_samples)
            if self.norm_samples < 2:
                raise InputError("the noise is taken off a variance of slopes: norm_samples= must be 2 at least")
        elif self.follow_noise:
            raise InputError("follow_noise=True needs to know the noise: give noise_samples=2, say")

    def cosine(
        self, state: State, x: Tensor, f: float, v: Tensor, rng: torch.Generator
    ) -> Flow[tuple[Tensor, float, State]]:
        """v, flipped where f falls along it, (*s), and its cosine α in [0, 1] to ∇f at x, Sec. 3.3.

        Where σ grew while the norm was measured, v's slope is asked again, for both must be seen at one σ. Where f is
        flat in every direction the transfer gradient is all there is to follow, so α is 1.
        """
        anew = state.iteration % self.norm_period == 0
        if anew:
            state = yield from self._listen(state, x, f)
        slope, state = yield from self.slope(state, x, f, v)
        if anew:
            if self.follow_noise:
                slope, state = yield from self._stand_out(state, x, f, v, slope)
            σ = state.sigma
            state = yield from self._norm(state, x, f, rng)
            state = yield from self._a_square(state, x, f, v, rng)
            if state.sigma != σ:
                slope, state = yield from self.slope(state, x, f, v)
        if slope < 0:
            v, slope = -v, -slope
        state = replace(state, slope=slope)
        return v, self._alpha(state, x, v), state

    def slope(self, state: State, x: Tensor, f: float, v: Tensor) -> Flow[tuple[float, State]]:
        """vᵀ∇f at x by one query; a surrogate without a gradient has slope 0 and costs nothing."""
        if is_zero(v):
            return 0.0, state
        probes, state = yield from self.probe(state, x, f, lambda: v.unsqueeze(0).clone())
        return float(probes.slope[0]), state  # Eq. (13)

    def base_directions(self, n: int, x: Tensor, v: Tensor, rng: torch.Generator) -> Tensor:
        """n unit directions before any bias towards v, uniform in the whole space or in the subspace, (n, *s)."""
        return self.uniform(n, x, rng)

    def settle(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[State]:
        """A σ that has grown, back at its start if that would do at x, (*s); one that follows noise stays for now.

        There every probe moves f, so that two of them say nothing about σ.
        """
        if self.follow_noise and state.noise.variance > 0:
            return state
        return (yield from super().settle(state, x, f, rng))

    def tracked(self, state: State, x: Tensor, probes: Probes, lam: float, signs: Tensor) -> State:
        """‖∇f‖ with what the probes of an estimate at x say of it, along ±(√λ·v + √(1−λ)·ξ): no query."""
        space, noise = self.space(x), state.noise
        if not self.track_norm or len(signs) < 2 or (space is not None and state.a_square == 0):
            return state
        per = x.numel() - 1 if space is None else space.d / state.a_square
        square = theory.norm_square_leaning(
            probes.slope, signs, state.slope, lam, per, noise.of_slope(_length(state, x))
        )
        if noise.variance > 0:
            return replace(state, noise=noise.measured(square, len(signs)))
        return replace(state, norm=math.sqrt(square)) if square > 0 else state

    def _alpha(self, state: State, x: Tensor, v: Tensor) -> float:
        """α, Eq. (8). Behind noise: with ‖∇f‖ less the noise where that is seen; where it is not, but v's slope is, 1.

        Then random probes see nothing at all, and the transfer gradient is all there is to follow.
        """
        slope, norm, length = state.slope, state.norm, _length(state, x)
        if state.noise.variance > 0:
            seen = state.noise.norm(x.numel(), length)
            norm = seen if seen is not None else norm if state.noise.hides(slope * length) else 0.0
        return min(1.0, slope / norm) if norm > 0 else float(not is_zero(v))  # Eq. (8)

    def _listen(self, state: State, x: Tensor, f: float) -> Flow[State]:
        """The target's noise, from x, (*s), asked `noise_samples` times more."""
        if not self.noise_samples or state.noise.silent:
            return state
        answer = yield from ask(x.expand(self.noise_samples, *x.shape).clone())
        return replace(state, noise=state.noise.heard([f, *answer.loss.tolist()]))

    def _stand_out(self, state: State, x: Tensor, f: float, v: Tensor, slope: float) -> Flow[tuple[float, State]]:
        """v's slope at a σ at which it stands out of the noise, or at the largest; a query for each doubling."""
        limit = self._policy.limit
        if is_zero(v) or state.noise.variance == 0:
            return slope, state
        while state.sigma < limit and state.noise.hides(slope * _length(state, x), LOUD):
            state = replace(state, sigma=min(2 * state.sigma, limit))
            slope, state = yield from self.slope(state, x, f, v)
        return slope, state

    def _norm(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[State]:
        """‖∇f‖ at x by S probes along w₁, …, w_S, uniform in the whole space."""
        probes, state = yield from self.probe(state, x, f, lambda: sphere(self.norm_samples, x, rng))
        if state.noise.variance > 0:
            noise = state.noise.of_slope(_length(state, x))
            square = theory.norm_square_noisy(probes.slope, x.numel(), noise)
            state = replace(state, noise=state.noise.measured(square, self.norm_samples))
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


def _length(state: State, x: Tensor) -> float:
    """How long a probe is, σ·√D, where clipping takes nothing off it."""
    return state.sigma * math.sqrt(x.numel())
