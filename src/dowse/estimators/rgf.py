"""RGF: random gradient-free estimation, Eq. (5) of the paper, and what the estimators of its family share."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Flow
from dowse.errors import count, positive
from dowse.estimators.base import Estimator
from dowse.estimators.noise import NO_NOISE, Noise
from dowse.estimators.probing import Probes
from dowse.estimators.sigma import SCOUTS, Draw, SigmaPolicy
from dowse.maths.sampling import sphere
from dowse.maths.subspace import Subspace


@dataclass(frozen=True)
class State:
    """What an estimator of the RGF family carries from one iterate to the next.

    Attributes:
        sigma: σ now, per pixel: a probe's length is σ·√D.
        iteration: How many iterates were estimated at.
        norm: The last estimate of ‖∇f‖₂, Eq. (16).
        a_square: The last estimate of A², Appendix C.
        slope: The last slope of f along the transfer gradient, turned so that it is not negative.
        noise: What is known of the target's noise, where an estimator asks for it.
    """

    sigma: float
    iteration: int = 0
    norm: float = 0.0
    a_square: float = 0.0
    slope: float = 0.0
    noise: Noise = NO_NOISE

    @property
    def next(self) -> "State":
        """The state for the next iterate."""
        return replace(self, iteration=self.iteration + 1)


@dataclass(frozen=True, kw_only=True)
class RGFFamily(Estimator[State]):
    """The parameters of random probes, shared by the RGF family.

    Attributes:
        q: Directions an estimate averages over.
        sigma: The sampling radius per pixel; a probe's length is sigma·√D (the paper's σ = 1e-4·√D).
        subspace: Side or (height, width) of the data-dependent prior's grid; None for the whole space.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the paper's.
    """

    uses_scores = False
    sigma_per_pixel = True

    q: int = 50
    sigma: float = 1e-4
    subspace: int | tuple[int, int] | None = None
    clip_probes: bool = True

    def __post_init__(self) -> None:
        count(q=self.q)
        positive(sigma=self.sigma)

    def init(self, x: Tensor) -> State:
        """The state before the first iterate, for an image like x, (*s)."""
        self.space(x)
        return State(self.sigma)

    def space(self, x: Tensor) -> Subspace | None:
        """The data-dependent prior's subspace of images like x, (*s); None is the whole space."""
        return Subspace.of(self.subspace, tuple(x.shape))

    def uniform(self, n: int, x: Tensor, rng: torch.Generator) -> Tensor:
        """n uniform unit directions of the whole space or of the subspace, (n, *s)."""
        space = self.space(x)
        return sphere(n, x, rng) if space is None else space.sphere(n, x, rng)

    def settle(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[State]:
        """A σ that has grown, back at its start if that would do at x, (*s)."""
        σ = yield from self._policy.settle(state.sigma, state.iteration, x, f, lambda: self.uniform(SCOUTS, x, rng))
        return replace(state, sigma=σ)

    def probe(self, state: State, x: Tensor, f: float, draw: Draw) -> Flow[tuple[Probes, State]]:
        """Probes at x, (*s), along the unit directions of draw(), (n, *s); σ grows where f is flat."""
        probes, σ = yield from self._policy.probe(state.sigma, x, f, draw)
        return probes, replace(state, sigma=σ)

    @property
    def _policy(self) -> SigmaPolicy:
        return SigmaPolicy(self.sigma, self.clip_probes)


@dataclass(frozen=True, kw_only=True)
class RGF(RGFFamily):
    """The average of q one-sided slopes along random unit directions. Cost: q + 1 queries an iteration."""

    name = "rgf"
    paper = "Cheng et al. 2019 (NeurIPS), Eq. (5)"
    cost = "q+1"

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """ĝ at x, (*s), of Eq. (5)."""
        state = yield from self.settle(state, x, f, rng)
        probes, state = yield from self.probe(state, x, f, lambda: self.uniform(self.q, x, rng))
        return probes.gradient(x.shape), state.next  # Eq. (5)
