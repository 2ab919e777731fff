"""Dowse's own attack: transfer examples first, then steps that a Bayesian last layer proposes and answers teach it.

docs/method.md has the algorithm box, the reason for each part and what each is worth.
"""

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.attacks.arms import ARMS, TRANSFERS, Arms
from dowse.attacks.base import Attack
from dowse.attacks.patterns import ALONE, PATTERNS, may_repeat, pattern
from dowse.attacks.ripple import rippled
from dowse.attacks.sight import Sight
from dowse.attacks.square import Square, moved_mass, painted
from dowse.attacks.walk import BLOCK, PATIENCE, PROBES, Pace, Walk, pays, walks
from dowse.core.flow import Answer, Flow, Seen, examine, note, pull
from dowse.errors import count, fraction, positive
from dowse.estimators.directions import ods
from dowse.maths.geometry import Ball, within
from dowse.maths.last_layer import Examples, fit
from dowse.maths.slope import Slope, clearest
from dowse.maths.views import random_view

OVERSHOOT = 2.5  # a climb's steps add up to so many radii, so that momentum reaches the surface
ODS_STEP = 1 / 6  # of ε, before the size that adapts
RIPPLE_STEP = 0.1  # likewise
WORTH = 1.5  # times what patterns gain, which transfer examples of doubtful surrogates have to gain


@dataclass(frozen=True, kw_only=True)
class Dowse(Attack):
    """Transfer examples, then climbs on a learnt last layer, ODS steps and square windows, whichever pays.

    Cost: 1 query a step tried, and every query is an iterate, but for the walk of a long search. The first answer tells
    the target's runner-up; the next three queries are transfer examples aimed at it. From then on one of several arms
    moves, drawn with a chance in proportion to what it has gained a query: `climb` takes momentum steps on the
    posterior's margin inside a trust region, with soft gradients at random views, `ods` steps ± along a random mixture
    of a surrogate's outputs, `slope` (l∞) sets the pixels whose learnt slope promises most to the ball's other side,
    `bump` changes one square window as Square does. What does not lower f is kept, and every answer, kept or not,
    becomes a row of the posterior and teaches the slope. The first moves of `bump` are stripes and checkerboards over
    the whole image. Without a surrogate it is the pixels that are learnt from, by the slope in l∞ and by the climb in
    l2, where `ripple` makes some parts of what was changed stronger at the cost of others. Surrogates that do not know
    the image are not used; nor, on small images of few classes, those whose transfer examples gain little more than
    patterns do. Where 150 moves with a surrogate were not enough on a small image in l2, steps along
    RGF's estimates, taken whether f rises or falls, go on beside the arms (`walk`).

    Attributes:
        compute: Surrogate gradients a climbed query; more of them cost seconds, not queries.
        ridge: Noise over signal of an answered row.
        pixels: Weight of the pixels' kernel beside the features'.
        memory: How many answers are remembered.
    """

    name = "dowse"
    paper = "this project, docs/method.md"
    cost = "1 a step"
    uses_surrogate = True
    looks_inside = True
    few_rows = True
    loss = "margin"

    compute: int = 10
    ridge: float = 0.05
    pixels: float = 0.3
    memory: int = 64

    def __post_init__(self) -> None:
        count(compute=self.compute, memory=self.memory)
        positive(ridge=self.ridge)
        fraction(pixels=self.pixels)

    check = Attack.check_image

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (C, H, W); ends only from outside."""
        search = yield from _Search.of(self, x, ball)
        at = search.begin(f)
        if search.sight.doubtful and at.arms.patterns:
            search, at = yield from search.trial(at, rng)
        walked = search.sight.seen and pays(x, ball.norm)
        for _ in range(PATIENCE - BLOCK - at.arms.turns) if walked else itertools.count():
            at = yield from search.move(at, rng)
        at, arms = yield from search.block(at, Pace(), rng)
        walk, pace = Walk.begin(x, ball, at.x, at.f), Pace()
        while True:
            if walks(pace, arms, rng):
                at, walk, pace = yield from search.walk(at, walk, pace, rng)
            else:
                at, arms = yield from search.block(at, arms, rng)


@dataclass(frozen=True)
class _At:
    """Where the search stands: the best point x, (*s), f and the surrogates' view there, what was learnt, the arms.

    `told` is f of the newest answer, kept or not.
    """

    x: Tensor
    f: float
    told: float
    seen: dict[int, Seen]
    rows: Examples
    slope: Slope | None
    arms: Arms


@dataclass(frozen=True)
class _Search:
    """What does not change while one image is attacked.

    Attributes:
        options: The attack's.
        x0: The image, (*s).
        ball: The ball around it.
        sight: How it is seen.
    """

    options: Dowse
    x0: Tensor
    ball: Ball
    sight: Sight

    @classmethod
    def of(cls, options: Dowse, x0: Tensor, ball: Ball) -> Flow["_Search"]:
        """The search, which begins with a look at the unchanged image."""
        return cls(options, x0, ball, (yield from Sight.of(x0)))

    def begin(self, f: float) -> _At:
        """The unchanged image, whose answer is the first row."""
        rows = Examples.of(self.sight.row(self.x0, self.sight.seen, self.sight.known.answer))
        patterns = PATTERNS if self.sight.seen else ALONE
        if self.sight.known.wanted is not None:
            patterns = 0  # a pattern leads away from a label, not to a class
        slope = Slope.unknown(self.x0) if self.ball.norm == "linf" else None
        arms = Arms.fresh(bool(self.sight.seen), self.ball.norm, f, patterns)
        return _At(self.x0, f, f, self.sight.seen, rows, slope, arms)

    def trial(self, at: _At, rng: torch.Generator) -> Flow[tuple["_Search", _At]]:
        """Transfer examples and the first patterns; the search goes on alone where the former gain little more."""
        f, gained = at.f, {}
        for arm, times in (("climb", TRANSFERS), ("bump", PATTERNS)):
            told = -math.inf
            for _ in range(times):
                at = yield from self.move(at, rng, arm)
                told = max(told, at.told)
            gained[arm] = told - f
        return self.alone(at) if gained["climb"] < WORTH * max(gained["bump"], 0.0) else (self, at)

    def alone(self, at: _At) -> tuple["_Search", _At]:
        """The search without surrogates on a small image, all of whose pixels are learnt from either way."""
        arms = replace(Arms.fresh(False, self.ball.norm, at.f, ALONE), turns=at.arms.bumps, bumps=at.arms.bumps)
        return replace(self, sight=self.sight.alone()), replace(at, seen={}, rows=at.rows.unseen(), arms=arms)

    def block(self, at: _At, pace: Pace, rng: torch.Generator) -> Flow[tuple[_At, Pace]]:
        """A block of moves, and the arms' pace after it."""
        before = at.f
        for _ in range(BLOCK):
            at = yield from self.move(at, rng)
        return at, pace.after(before, at.f, BLOCK)

    def walk(self, at: _At, walk: Walk, pace: Pace, rng: torch.Generator) -> Flow[tuple[_At, Walk, Pace]]:
        """A block of a walk, which teaches what a move teaches, and its pace after it."""
        before = walk.f
        for _ in range(BLOCK // (PROBES + 1)):
            walk, answer = yield from walk.step(rng)
            yield from note(arm=float(len(ARMS)), gain=walk.f - at.f)
            at = yield from self.learn(at, walk.x, answer)
        return at, walk, pace.after(before, walk.f, BLOCK)

    def move(self, at: _At, rng: torch.Generator, arm: str | None = None) -> Flow[_At]:
        """One move of an arm, or of the one that is drawn."""
        arm = arm or at.arms.draw(rng)
        moves = yield from self.moves(arm, at, rng)
        before, asked = at.f, 0
        for z in moves:
            if torch.equal(z, at.x) and arm != "bump":
                continue
            answer, asked = (yield from examine(z)), asked + 1
            at = yield from self.learn(at, z, answer)
            if at.x is z:
                break
        yield from note(arm=float(ARMS.index(arm)), gain=at.f - before)
        return replace(at, arms=at.arms.after(arm, (at.f - before) / max(asked, 1), won=at.f > before))

    def learn(self, at: _At, z: Tensor, answer: Answer) -> Flow[_At]:
        """Where the search stands after the answer about z, (*s): there unless f fell; a tie moves, for flat scores."""
        seen, f = (yield from self.sight.look(z)), float(answer.loss[0])
        kept = f >= at.f
        rows = at.rows.add(self.sight.row(z, seen, answer), pin=kept, most=self.options.memory)
        slope = None if at.slope is None else at.slope.after((z - at.x) / self.ball.eps, f - at.f)
        at = replace(at, rows=rows, slope=slope, told=f)
        return replace(at, x=z, f=f, seen=seen) if kept else at

    def moves(self, arm: str, at: _At, rng: torch.Generator) -> Flow[tuple[Tensor, ...]]:
        """The points that an arm proposes, in the order in which they are asked about."""
        ε = self.ball.eps
        if arm == "climb":
            return ((yield from self._climb(at, rng)),)
        if arm == "ods":
            direction = yield from ods(at.x, self.sight.known, rng, soft=True)
            step = ODS_STEP * at.arms.size[arm] * ε * self.ball.steepest(direction)
            return self.ball.project(at.x + step, self.x0), self.ball.project(at.x - step, self.x0)
        if arm == "ripple":
            return (rippled(at.x, self.x0, RIPPLE_STEP * at.arms.size[arm] * ε, self.ball, rng),)
        if arm == "slope":
            assert at.slope is not None
            z = clearest(at.slope.image().to(at.x), at.x, self.x0, ε, at.arms.size[arm])
            return (self.ball.project(z, self.x0),)
        if at.arms.bumps < at.arms.patterns:
            step = ε * self.ball.steepest(pattern(at.arms.bumps, self.x0, rng))
            z = self.ball.project(self.x0 + step, self.x0)
            return () if may_repeat(z) and at.rows.about(self.sight.moved(z)) else (z,)
        propose = moved_mass if self.ball.norm == "l2" else painted
        return (propose(at.x, self.x0, self._side(at), self.ball, rng),)

    def _side(self, at: _At) -> int:
        """The side of the next window, as in Square."""
        return Square().side(at.arms.windows, self.x0, self.ball)

    def _climb(self, at: _At, rng: torch.Generator) -> Flow[Tensor]:
        """Momentum steps up the posterior's margin inside the ball, (*s): a transfer example, or within a trust region.

        The gradients are soft, at random views; without a surrogate it is one step on what the pixels have taught.
        """
        model = fit(at.rows, self.sight.classes, ridge=self.options.ridge, pixels=self.options.pixels)
        steps = self.options.compute if self.sight.seen else 1
        anew = self.sight.seen and at.arms.turns < TRANSFERS
        start, seen = (self.x0, self.sight.seen) if anew else (at.x, at.seen)
        radius = self.ball.eps * (1.0 if anew else at.arms.size["climb"])
        η = radius if steps == 1 else OVERSHOOT * radius / steps
        z, momentum = start, torch.zeros_like(start)
        for _ in range(steps):
            u = self.sight.margin(model, z, seen)
            by_feature, by_pixel = model.slope(u)
            g = self.sight.pixels(by_pixel)
            if seen:
                view, back = random_view(z, rng)
                seen = yield from pull(view, self.sight.weights(u, model.scale, by_feature, seen), soft=True)
                g += back(torch.stack([one.gradient for one in seen.values() if one.gradient is not None]).sum(0))
            momentum = momentum + g / max(float(g.abs().mean()), 1e-20)
            z = z + η * self.ball.steepest(momentum)
            if radius < self.ball.eps:
                z = within(z, start, radius, self.ball.norm)
            z = self.ball.project(z, self.x0)
        return z
