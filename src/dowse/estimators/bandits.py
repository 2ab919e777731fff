"""Bandits: a gradient prior carried over time and learned from two queries a step (Ilyas et al. 2019)."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from dowse.core.flow import Flow, ask
from dowse.errors import InputError, choose, count, positive
from dowse.estimators.base import Estimator
from dowse.maths.geometry import Ball
from dowse.maths.sampling import gaussian
from dowse.maths.subspace import Subspace
from dowse.settings import Norm


class Rates(NamedTuple):
    """The parameters that depend on the norm; see Bandits for the first three."""

    exploration: float
    probe_length: float
    online_rate: float
    step: float
    eps: float


# The paper's for ImageNet: δ, the finite-difference probe η, the online rate, the image rate, and the ε they are for.
PUBLISHED: dict[Norm, Rates] = {
    "l2": Rates(exploration=0.01, probe_length=0.01, online_rate=0.1, step=0.5, eps=5.0),
    "linf": Rates(exploration=1.0, probe_length=0.1, online_rate=100.0, step=0.01, eps=0.05),
}


@dataclass(frozen=True)
class BanditState:
    """What is known of the gradient.

    Attributes:
        latent: The prior, (C, h, w); for l∞ its inverse hyperbolic tangent, in which exponentiated gradient adds.
        prior: The prior itself, (C, h, w).
        subspace: Where the prior lives; None for the whole space.
    """

    latent: Tensor
    prior: Tensor
    subspace: Subspace | None

    def up(self, small: Tensor) -> Tensor:
        """Nearest-neighbour up-sampling, (n, C, h, w) -> (n, *s)."""
        return small if self.subspace is None else self.subspace.repeat(small)

    def block_mean(self, images: Tensor) -> Tensor:
        """The mean of each block of pixels that `up` fills from one value, (n, *s) -> (n, C, h, w)."""
        return images if self.subspace is None else self.subspace.block_mean(images)


@dataclass(frozen=True, kw_only=True)
class Bandits(Estimator[BanditState]):
    """A prior that follows the gradient from step to step: T without a subspace, TD with one.

    Cost: 3 queries an iteration, the two antithetic queries that update the prior and the check of the iterate;
    2 + 1/k with check_every=k.

    The prior v is updated by the slope of f along it under antithetic exploration v ± δu, by exponentiated gradient
    for l∞ and by gradient ascent for l2; the image then steps along it. Parameters left None are the paper's for
    ImageNet and the norm. They are used as they are: pixels lie in [0, 1] there too, the probe is an l2 length, and
    u is Gaussian over √d, so that δ does not depend on the size. The image's step is the paper's share of ε: a tenth
    for l2 (0.5 of 5) and a fifth for l∞ (0.01 of 0.05), in larger balls and in smaller ones.

    Differences to the original: the check is counted, which makes a step half as dear again (the original's code looks
    after every step too, and counts two queries); exponentiated gradient adds to artanh(v), which is the same and
    does not get stuck at ±1 by rounding; probes are clipped to the image range unless clip_probes=False, and the
    exploration credited is δu less what clipping took from it.

    Attributes:
        subspace: Side or (height, width) of the prior's grid, up-sampled by nearest neighbour: 50 is TD's at ImageNet
            size; None, the whole space, is T.
        exploration: δ, how far around the prior is explored; None is 0.01 for l2, 1 for l∞.
        probe_length: The l2 length of a probe; None is 0.01 for l2, 0.1 for l∞.
        online_rate: The learning rate of the prior; None is 0.1 for l2, 100 for l∞.
        clip_probes: Keep every probe an image, in [0, 1], and use the displacement really sent; False is the original.
        check_every: At every which step the iterate is asked about, a query; success is looked for there alone.
        norm: The norm whose values stand for None, and with it the update: filled in by the run.
    """

    name = "bandits"
    paper = "Ilyas et al. 2019 (ICLR)"
    cost = "3: two antithetic queries and the check; or 2+1/k"
    few_rows = True
    uses_scores = False

    subspace: int | tuple[int, int] | None = None
    exploration: float | None = None
    probe_length: float | None = None
    online_rate: float | None = None
    clip_probes: bool = True
    check_every: int = 1  # not `later`: since its step grows with ε its runs are others, and have other ids
    norm: Norm = "l2"

    def __post_init__(self) -> None:
        choose("norm", self.norm, get_args(Norm))
        count(check_every=self.check_every)
        positive(**self.rates._asdict())

    @cached_property
    def rates(self) -> Rates:
        """The parameters in force."""
        given = {name: getattr(self, name) for name in ("exploration", "probe_length", "online_rate")}
        return PUBLISHED[self.norm]._replace(**{name: value for name, value in given.items() if value is not None})

    def check_run(self, *, norm: Norm, targeted: bool) -> None:
        """Raise InputError for a run in another norm than the one its values are for."""
        super().check_run(norm=norm, targeted=targeted)
        if self.norm != norm:
            raise InputError(f"your Bandits is for {self.norm}, the run is {norm}: write Bandits(norm={norm!r})")

    def default_step(self, ball: Ball) -> float:
        """The image's step in a ball: the paper's share of ε."""
        published = PUBLISHED[ball.norm]
        return published.step * ball.eps / published.eps

    def init(self, x: Tensor) -> BanditState:
        """A prior of zero for an image like x, (*s)."""
        subspace = Subspace.of(self.subspace, tuple(x.shape))
        zero = x.new_zeros(x.shape if subspace is None else subspace.small)
        return BanditState(zero, zero, subspace)

    def estimate(
        self, state: BanditState, x: Tensor, f: float, rng: torch.Generator
    ) -> Flow[tuple[Tensor, BanditState]]:
        """The updated prior at x, (*s), after two queries; f is not needed."""
        δ, η, rate, *_ = self.rates
        v, latent = state.prior, state.latent
        δu = gaussian(latent.shape, x, rng).div_(math.sqrt(latent.numel())).mul_(δ)
        points = state.up(torch.stack([v + δu, v - δu]))
        length = torch.linalg.vector_norm(points.flatten(1), dim=1).clamp_min_(torch.finfo(x.dtype).tiny)
        points.mul_(η).div_(length.view(2, *[1] * x.ndim)).add_(x)
        sent = points.clamp(0, 1) if self.clip_probes else points
        answer = yield from ask(sent)
        one, other = answer.loss.tolist()
        if self.clip_probes:
            lost = points.sub_(sent)
            δu -= state.block_mean(lost[:1] - lost[1:])[0].mul_(float(length.mean()) / (2 * η))
        latent = δu.mul_(rate * ((one - other) / (δ * η))).add_(latent)
        state = BanditState(latent, self._prior(latent), state.subspace)
        return state.up(state.prior.unsqueeze(0))[0], state

    def _prior(self, latent: Tensor) -> Tensor:
        """The mirror map: the identity makes addition gradient ascent, tanh exponentiated gradient on [−1, 1]."""
        return latent if self.norm == "l2" else latent.tanh()
