"""The walk inside `dowse`: who goes on after a long search, and steps that are taken whether f rises or falls."""

import pytest
import torch

import dowse
from dowse.attacks.arms import ARMS
from dowse.attacks.walk import BLOCK, LEAST, PATIENCE, PROBES, TRIALS, Pace, Walk, walks
from dowse.core.flow import Query
from dowse.estimators.rgf import RGF
from dowse.maths.geometry import L2, Linf
from tests.nets import Tanh, generator
from tests.support import Counter, canned, pictures

WALKING = float(len(ARMS))


def share_of_walks(walk: Pace, arms: Pace, n: int = 400) -> float:
    rng = generator(0)
    return sum(walks(walk, arms, rng) for _ in range(n)) / n


def step(walk: Walk, loss, seed: int = 0) -> tuple[Walk, list[Query]]:
    """One step of a walk in a conversation with canned losses, and what it asked."""
    flow, asked = walk.step(generator(seed)), []
    reply = None
    while True:
        try:
            question = flow.send(reply)
        except StopIteration as stop:
            return stop.value[0], asked
        asked.append(question)
        reply = canned(loss)(question)


class Arms(dowse.Observer):
    """Which arms moved, in order."""

    def __init__(self):
        self.moved = []

    def noted(self, task, values):
        self.moved.append(values["arm"])


def noted(**settings) -> list[float]:
    """The arms of a search that nothing comes of: a ball too small to fool anybody."""
    target, watch = Tanh(seed=5), Arms()
    dowse.attack(target, pictures(1, seed=6), method="dowse", eps=1e-4, seed=8, observers=[watch], **settings)
    return watch.moved


def test_a_new_walk_is_tried_before_it_is_judged():
    pace = Pace()
    for _ in range(TRIALS):
        assert share_of_walks(pace, Pace(1.0, 9)) == 1
        pace = pace.after(-1.0, -1.5, BLOCK)
    assert share_of_walks(pace, Pace(1.0, 9)) < 1


@pytest.mark.parametrize(
    ("walk", "arms", "share"),
    [(0.0, 0.01, LEAST), (-0.01, 0.01, LEAST), (0.01, 0.0, 1 - LEAST), (0.01, 0.01, 0.5), (0.0, 0.0, 0.5),
     (0.03, 0.01, 0.75)],
)  # fmt: skip
def test_blocks_are_shared_by_pace_and_neither_is_forgotten(walk, arms, share):
    n = 4000
    z = (share_of_walks(Pace(walk, TRIALS), Pace(arms, 1), n) - share) / (share * (1 - share) / n) ** 0.5
    assert abs(z) < 4


def test_a_pace_is_relative_to_what_is_missing():
    assert Pace().after(-8.0, -4.0, 10).speed == Pace().after(-2.0, -1.0, 10).speed == pytest.approx(0.05)
    assert Pace(0.05, 3).after(-1.0, -1.5, 10).speed == pytest.approx(0.0)


@pytest.mark.parametrize("ball", [L2(0.5), Linf(0.05)], ids=["l2", "linf"])
def test_a_step_is_taken_though_f_falls(ball):
    x0 = pictures(1)[0]

    def peak(points):
        """Greatest at the image, so that every step leads down."""
        return -(points - x0).flatten(1).square().sum(1)

    walk, asked = step(Walk.begin(x0, ball, x0, 0.0), peak)
    assert [len(question.points) for question in asked] == [PROBES, 1]
    assert [question.candidate for question in asked] == [False, True]
    assert walk.f < 0
    assert torch.equal(walk.x, asked[-1].points[0])
    assert float(ball.distance(walk.x[None], x0)) <= ball.eps


@pytest.mark.parametrize("ball", [L2(0.5), Linf(0.05)], ids=["l2", "linf"])
def test_where_f_is_flat_a_step_goes_somewhere_all_the_same(ball):
    x0 = pictures(1)[0]
    walk, _ = step(Walk.begin(x0, ball, x0, -1.0), lambda points: torch.full((len(points),), -1.0).double())
    assert float(ball.distance(walk.x[None], x0)) == pytest.approx(RGF().default_step(ball))


def test_steps_climb_a_plane_to_the_balls_rim():
    x0, ball = torch.full((3, 8, 8), 0.5, dtype=torch.float64), L2(0.4)
    w = torch.randn(x0.shape, generator=generator(1), dtype=torch.float64)

    def plane(points):
        return ((points - x0) * w).flatten(1).sum(1) - 9.0

    walk = Walk.begin(x0, ball, x0, -9.0)
    for seed in range(120):
        walk, _ = step(walk, plane, seed)
    assert walk.f + 9.0 > 0.6 * ball.eps * float(w.norm())


def test_walks_come_after_many_moves_in_l2_and_with_a_surrogate_only():
    surrogate = Tanh(7, near=Tanh(seed=5), apart=0.6)
    helped = noted(surrogate=surrogate, budget=320)
    assert helped.index(WALKING) == PATIENCE
    assert helped[PATIENCE : PATIENCE + TRIALS * (BLOCK // (PROBES + 1))].count(WALKING) == TRIALS * (
        BLOCK // (PROBES + 1)
    )
    assert WALKING not in noted(budget=320)
    assert WALKING not in noted(surrogate=surrogate, norm="linf", budget=320)


def test_on_the_grid_every_probe_is_another_image():
    x, probes = (pictures(1, seed=6) * 255).round() / 255, []

    class Probes(dowse.Observer):
        def answered(self, task, query, reply):
            if not query.candidate:
                probes.extend(query.points.clone())

    surrogate = Tanh(7, near=Tanh(seed=5), apart=0.3)
    settings = {"eps": 0.015, "budget": 260, "quantize": True, "observers": [Probes()]}
    dowse.attack(Tanh(seed=5), x, surrogate=surrogate, **settings)
    assert len(probes) >= 2 * PROBES
    assert len(torch.stack(probes).flatten(1).unique(dim=0)) == len(probes)


@pytest.mark.parametrize("budget", [205, 260])
def test_a_walk_is_paid_for_like_everything_else(budget):
    target = Counter(Tanh(seed=5))
    settings = {"method": "dowse", "eps": 1e-4, "budget": budget}
    result = dowse.attack(target, pictures(1, seed=6), surrogate=Tanh(7, near=Tanh(seed=5), apart=0.6), **settings)
    assert int(result.queries.max()) <= budget
    assert target.rows == int(result.sent.sum())
