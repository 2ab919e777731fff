"""Probes around an iterate: what is really sent, the slopes they show, and how σ copes with a flat f."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Flow, ask
from dowse.errors import count, positive
from dowse.estimators.base import Estimator
from dowse.maths.sampling import sphere
from dowse.maths.subspace import Subspace

SIGMA_LIMIT = math.sqrt(0.001)  # per pixel: the paper's ε, so a longer probe says nothing about where the ball leads
SCOUTS = 2  # probes that look for a σ at which f moves, before a whole set is asked again


@dataclass(frozen=True)
class Probes:
    """Slopes of f along displacements that were sent.

    Attributes:
        displacement: What was added to x, clipping included, (n, D).
        length: Its lengths, (n,) float64.
        slope: [f(x + displacement) − f(x)] / length, Eq. (13), (n,) float64; zero where nothing was added.
    """

    displacement: Tensor
    length: Tensor
    slope: Tensor

    def gradient(self, shape: torch.Size) -> Tensor:
        """The mean of slope times unit displacement, Eq. (5), as a tensor of the given shape (*s)."""
        weight = self.slope / self.length.clamp_min(torch.finfo(torch.float64).tiny) / len(self.slope)
        return (weight.to(self.displacement) @ self.displacement).view(shape)


@dataclass(frozen=True)
class State:
    """What an estimator of the RGF family carries from one iterate to the next.

    Attributes:
        sigma: σ now, per pixel: a probe's length is σ·√D.
        subspace: The data-dependent prior's subspace, if any.
        iteration: How many iterates were estimated at.
        norm: The last estimate of ‖∇f‖₂.
        a_square: The last estimate of A².
    """

    sigma: float
    subspace: Subspace | None
    iteration: int = 0
    norm: float = 0.0
    a_square: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Probing(Estimator[State]):
    """The parameters of random probes, shared by the RGF family.

    Attributes:
        q: Directions an estimate averages over.
        sigma: The sampling radius per pixel; a probe's length is sigma·√D (the paper's σ = 1e-4·√D).
        subspace: Side or (height, width) of the data-dependent prior's grid; None for the whole space.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the paper's.
    """

    uses_scores = False

    q: int = 50
    sigma: float = 1e-4
    subspace: int | tuple[int, int] | None = None
    clip_probes: bool = True

    def __post_init__(self) -> None:
        count(q=self.q)
        positive(sigma=self.sigma)

    def init(self, x: Tensor) -> State:
        """The state before the first iterate, for an image like x, (*s)."""
        return State(self.sigma, Subspace.of(self.subspace, tuple(x.shape)))

    def directions(self, state: State, n: int, x: Tensor, rng: torch.Generator) -> Tensor:
        """n uniform unit directions of the whole space or of the subspace, (n, *s)."""
        return sphere(n, x, rng) if state.subspace is None else state.subspace.sphere(n, x, rng)

    def probe(self, state: State, x: Tensor, f: float, draw: Callable[[], Tensor]) -> Flow[tuple[Probes, State]]:
        """Ask about x + σu for the unit directions u, (n, *s), that draw() makes anew for each try.

        Where f does not move at all, σ doubles and the probes are repeated, each try paid for, until a slope shows or
        σ reaches its limit. For a set of probes two scouts go first and find a σ at which f moves.
        """
        while True:
            points = self._points(x, draw(), state.sigma)
            answer = yield from ask(points)
            probes = _slopes(points, x, answer.loss - f)
            if probes.slope.any() or state.sigma >= self._limit:
                return probes, state
            state = self._doubled(state)
            if len(points) > SCOUTS:
                state = yield from self._scout(state, x, f, draw)

    def _scout(self, state: State, x: Tensor, f: float, draw: Callable[[], Tensor]) -> Flow[State]:
        """Double σ until one of two probes moves f, or up to the limit."""
        while state.sigma < self._limit:
            answer = yield from ask(self._points(x, draw()[:SCOUTS], state.sigma))
            if (answer.loss != f).any():
                break
            state = self._doubled(state)
        return state

    def _doubled(self, state: State) -> State:
        return replace(state, sigma=min(2 * state.sigma, self._limit))

    @property
    def _limit(self) -> float:
        return max(self.sigma, SIGMA_LIMIT)

    def settle_sigma(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[State]:
        """Every second iteration of a grown σ, see with two probes whether its start would do again."""
        if state.sigma == self.sigma or state.iteration % 2:
            return state
        points = self._points(x, self.directions(state, 2, x, rng), self.sigma)
        answer = yield from ask(points)
        return replace(state, sigma=self.sigma) if (answer.loss != f).all() else state

    def _points(self, x: Tensor, directions: Tensor, sigma: float) -> Tensor:
        points = directions.mul_(sigma * math.sqrt(x.numel())).add_(x)
        return points.clamp_(0, 1) if self.clip_probes else points


def _slopes(points: Tensor, x: Tensor, rise: Tensor) -> Probes:
    """Slopes along the displacements really sent; the points, answered by now, become the displacements."""
    displacement = points.sub_(x).flatten(1)
    length = torch.linalg.vector_norm(displacement, dim=1).to("cpu", torch.float64)
    slope = torch.where(length > 0, rise / length, 0.0)  # Eq. (13)
    return Probes(displacement, length, slope)
