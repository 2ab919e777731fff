"""AutoZOOM: random full-gradient estimates in a reduced space, bilinear variant (Tu et al. 2019)."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from dowse.attacks.adam import Adam, published_rate
from dowse.attacks.base import Attack
from dowse.core.flow import Answer, Flow, Query, ask, note
from dowse.errors import count, positive, positive_or_none
from dowse.maths.geometry import Ball
from dowse.maths.sampling import sphere
from dowse.maths.subspace import Subspace

SATURATION = 1 - 1e-6  # artanh of a pixel of 0 or 1 is taken at this instead
WEIGHT_LIMIT = 1e8  # beyond this the weight does not grow any more
ROOM = 0.9  # of ε for l∞: what distortion is measured from, so that a noisy pixel still lies in the ball


@dataclass(frozen=True)
class Weight:
    """c, the weight of the loss beside the distortion, and the search for the least that succeeds.

    Attributes:
        value: c now.
        lower: The largest c that failed.
        upper: The smallest c that succeeded.
    """

    value: float
    lower: float = 0.0
    upper: float = math.inf

    def after(self, succeeded: bool) -> "Weight":
        """c for the next period: between the bounds, or ten times as much while nothing has succeeded."""
        lower = self.lower if succeeded else max(self.lower, self.value)
        upper = min(self.upper, self.value) if succeeded else self.upper
        if upper < math.inf:
            return Weight((lower + upper) / 2, lower, upper)
        return Weight(min(10 * self.value, max(self.value, WEIGHT_LIMIT)), lower, upper)


@dataclass(frozen=True)
class Goal:
    """What AutoZOOM minimises.

    Attributes:
        x0: The image, (*s).
        ball: The ball around it.
        shrink: Whether distortion counts.
        enough: The least loss an adversarial image has shown; more of it gains nothing.
    """

    x0: Tensor
    ball: Ball
    shrink: bool
    enough: float = math.inf

    def value(self, points: Tensor, loss: Tensor, weight: float) -> Tensor:
        """distortion − c·min(loss, enough) of each row, (n, *s), (n,) -> (n,) float64; without shrink only −loss."""
        return self.distortion(points) - weight * loss.clamp_max(self.enough) if self.shrink else -loss

    def distortion(self, points: Tensor) -> Tensor:
        """‖x − x0‖² of each row, for l∞ what exceeds the smaller ball, scaled, (n, *s) -> (n,) float64 on the CPU."""
        δ = (points - self.x0).flatten(1).to("cpu", torch.float64)
        if self.ball.norm == "linf":
            δ = (δ.abs() - ROOM * self.ball.eps).clamp_min(0) / (1 - ROOM)
        return δ.square().sum(1)

    def learn(self, answer: Answer) -> "Goal":
        """The goal after rows some of which may be adversarial."""
        losses = answer.loss[answer.adversarial]
        return replace(self, enough=min(self.enough, float(losses.min()))) if len(losses) else self


@dataclass(frozen=True)
class AutoZOOMState:
    """How far an attack has come.

    Attributes:
        x: The iterate, (*s).
        w: What moves: x is (1 + tanh w)/2, (*s).
        f: The loss at x.
        goal: What is minimised.
        weight: c, and its search.
        adam: ADAM's memory, on the grid.
        iteration: How many steps were made.
        found: Whether an iterate was adversarial.
        found_lately: Whether one was since c last changed.
    """

    x: Tensor
    w: Tensor
    f: float
    goal: Goal
    weight: Weight
    adam: Adam
    iteration: int = 0
    found: bool = False
    found_lately: bool = False


@dataclass(frozen=True, kw_only=True)
class AutoZOOM(Attack):
    """Minimise distortion + c·loss by ADAM along random directions of a small grid, up-sampled bilinearly.

    Cost an iteration: q + 1 queries, the probes and the check, that is 2; q_after + 1, that is 5, after the first
    success. The published values are those of the released code for ImageNet.

    shrink=True is the original: it leaves the ball, and after its first success reduces the distortion until an
    adversarial iterate lies in the ball. shrink=False has no distortion and projects every iterate into the ball.

    Images are (1 + tanh w)/2 and w is what moves, so that every probe is an image. The loss counts only as far as it
    falls short of the least that an adversarial image has shown, which for loss="margin", the original's and the
    default here, is the original's hinge at zero.

    Differences to the original: the autoencoder variant is left out, since it needs training data; for l∞, for which
    the original has no distortion, ours is the squared distance to a ball of nine tenths of ε, because the squared
    length says nothing about the largest change of a pixel, and no pixel may be outside; it is scaled such that a pixel
    that has moved by ε counts ε² as it does in the squared length.

    Attributes:
        shrink: True for the original, False to stay in the ball.
        subspace: Side or (height, width) of the grid; None is a quarter of the image's, from 8 to 32, which gives the
            published 32 at ImageNet size and 8 for CIFAR-10.
        q: Directions of an estimate before the first success.
        q_after: Directions of an estimate after it.
        sigma: The length of a probe on the grid, β of the original; None is its 1/d, d the grid's size.
        step: ADAM's rate; None is the original's, 0.01 for small images (MNIST, CIFAR-10) and 0.002 for ImageNet.
        weight: c to start with.
        period: Iterations between two changes of c.
    """

    name = "autozoom"
    paper = "Tu et al. 2019 (AAAI)"
    cost = "q+1, after the first success q_after+1"
    loss = "margin"
    uses_scores = False

    shrink: bool = True
    subspace: int | tuple[int, int] | None = None
    q: int = 1
    q_after: int = 4
    sigma: float | None = None
    step: float | None = None
    weight: float = 10.0
    period: int = 1000

    def __post_init__(self) -> None:
        count(q=self.q, q_after=self.q_after, period=self.period)
        positive(weight=self.weight)
        positive_or_none(sigma=self.sigma, step=self.step)

    def check(self, x: Tensor) -> None:
        """Raise ValueError if the grid does not fit an image like x, (*s)."""
        self.grid(x)

    def grid(self, x: Tensor) -> Tensor:
        """A zero of the reduced space for an image like x, (C, H, W) -> (C, h, w)."""
        H, W = x.shape[-2:]
        space = Subspace.of((_side(H), _side(W)) if self.subspace is None else self.subspace, tuple(x.shape))
        assert space is not None
        return x.new_zeros(space.small)

    def init(self, x: Tensor, f: float, ball: Ball) -> AutoZOOMState:
        """The state before the first step, for an image x, (*s), whose loss is f."""
        return AutoZOOMState(
            x, _inverse(x), f, Goal(x, ball, self.shrink), Weight(self.weight), Adam.fresh(self.grid(x))
        )

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (C, H, W); ends only from outside."""
        state = self.init(x, f, ball)
        while True:
            ĝ, state = yield from self.gradient(state, rng)
            state = self.moved(state, ĝ)
            answer = yield Query(state.x.unsqueeze(0), candidate=True)
            state = self.judged(state, answer)
            distortion = float(state.goal.distortion(state.x.unsqueeze(0))[0])
            yield from note(weight=state.weight.value, distortion=distortion)

    def gradient(self, state: AutoZOOMState, rng: torch.Generator) -> Flow[tuple[Tensor, AutoZOOMState]]:
        """The gradient on the grid of what is minimised, (C, h, w), by q one-sided differences."""
        grid = self.grid(state.x)
        u, β = sphere(self.q_after if state.found else self.q, grid, rng), self.sigma or 1 / grid.numel()
        probes = _image(state.w + β * _up(u, state.x))
        answer = yield from ask(probes)
        goal, c = state.goal, state.weight.value
        now = goal.value(state.x.unsqueeze(0), torch.tensor([state.f], dtype=torch.float64), c)
        rise = goal.value(probes, answer.loss, c) - now
        ĝ = torch.einsum("n,n...->...", (rise / β).to(u), u)  # the mean over q directions times b = q
        return ĝ, replace(state, goal=goal.learn(answer))

    def moved(self, state: AutoZOOMState, ĝ: Tensor) -> AutoZOOMState:
        """One step of ADAM against ĝ, (C, h, w); without shrink also into the ball."""
        step, adam = state.adam.step(-ĝ)
        w = state.w + (self.step or published_rate(state.x)) * _up(step.unsqueeze(0), state.x)[0]
        x = _image(w)
        if not self.shrink:
            x = state.goal.ball.project(x, state.goal.x0)
            w = _inverse(x)
        return replace(state, x=x, w=w, adam=adam, iteration=state.iteration + 1)

    def judged(self, state: AutoZOOMState, answer: Answer) -> AutoZOOMState:
        """What the answer about the iterate changes: the loss, c at the end of a period, and what ADAM remembers."""
        adversarial = bool(answer.adversarial[0])
        first, weight, ends = adversarial and not state.found, state.weight, state.iteration % self.period == 0
        found, lately = state.found or adversarial, state.found_lately or adversarial
        if first:
            weight = replace(weight, lower=0.0)
        if ends:
            weight, lately = weight.after(lately), False
        return replace(
            state,
            f=float(answer.loss[0]),
            goal=state.goal.learn(answer),
            weight=weight,
            adam=Adam.fresh(state.adam.first) if first or (ends and found) else state.adam,
            found=found,
            found_lately=lately,
        )


def _side(whole: int) -> int:
    """The side of the grid for a side of the image: a quarter, from 8 to 32, but never more than the whole."""
    return min(whole, max(8, min(32, whole // 4)))


def _image(w: Tensor) -> Tensor:
    """(1 + tanh w)/2, in [0, 1]."""
    return w.tanh().add_(1).div_(2)


def _inverse(x: Tensor) -> Tensor:
    """w of an image."""
    return torch.atanh((2 * x - 1) * SATURATION)


def _up(small: Tensor, like: Tensor) -> Tensor:
    """Bilinear up-sampling to the image's size, corners on corners, (n, C, h, w) -> (n, C, H, W)."""
    return interpolate(small, size=tuple(like.shape[1:]), mode="bilinear", align_corners=True)
