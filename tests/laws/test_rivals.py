"""The laws of the rivals: what an iteration costs, that every row sent is an image, that iterates stay in the ball."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dowse
from dowse.attacks import PGD, SPSA, ZOO, AutoZOOM
from dowse.core.flow import Answer, Query
from dowse.estimators import NES, Bandits
from dowse.maths.geometry import L2, Linf, contains
from tests.support import SHAPE, Counter, D, Tanh, canned, converse, generator, labels_of, pictures

X = torch.full(SHAPE, 0.5, dtype=torch.float64)
SLOPE = torch.randn(SHAPE, generator=generator(1), dtype=torch.float64)


def linear(points):
    return (points * SLOPE).flatten(1).sum(1)


def rivals(draw):
    """One of the attacks with options that make its questions small."""
    clip = draw(st.booleans())
    return draw(
        st.sampled_from(
            [
                PGD(NES(q=6, clip_probes=clip)),
                PGD(Bandits(clip_probes=clip)),
                PGD(Bandits(subspace=2, clip_probes=clip)),
                PGD(Bandits(norm="linf", clip_probes=clip)),
                PGD(Bandits(norm="linf", subspace=(2, 3), clip_probes=clip)),
                SPSA(q=6, clip_probes=clip),
                ZOO(coordinates=5, clip_probes=clip),
                AutoZOOM(subspace=2),
                AutoZOOM(shrink=False),
            ]
        )
    ), clip


def per_iteration(attack, ball=None, iterations=7):
    flow = attack.flow(X, float(linear(X[None])), ball or L2(0.3), generator(0))
    return converse(flow, canned(linear), candidates=iterations)[0]


@pytest.mark.parametrize("ball", [L2(0.3), Linf(0.05)], ids=["l2", "linf"])
@pytest.mark.parametrize("q", [2, 8, 50])
def test_nes_and_spsa_cost_q_and_the_check(q, ball):
    assert per_iteration(PGD(NES(q=q)), ball) == [q + 1] * 7
    assert per_iteration(SPSA(q=q), ball) == [q + 1] * 7


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("subspace", [None, 2])
def test_bandits_cost_two_antithetic_queries_and_the_check(norm, subspace):
    assert per_iteration(PGD(Bandits(norm=norm, subspace=subspace))) == [3] * 7


@pytest.mark.parametrize(("coordinates", "asked"), [(1, 1), (9, 9), (D, D), (128, D)])
def test_zoo_costs_two_queries_a_coordinate_and_the_check(coordinates, asked):
    assert per_iteration(ZOO(coordinates=coordinates)) == [2 * asked + 1] * 7


@pytest.mark.parametrize(("q", "q_after"), [(1, 4), (3, 2)])
@pytest.mark.parametrize("shrink", [True, False])
def test_autozoom_asks_along_more_directions_from_its_first_success_on(q, q_after, shrink):
    checks = 0

    def answer(query: Query) -> Answer:
        nonlocal checks
        checks += query.candidate
        plain = canned(linear)(query)
        return plain._replace(adversarial=torch.full_like(plain.adversarial, query.candidate and checks == 3))

    flow = AutoZOOM(q=q, q_after=q_after, shrink=shrink).flow(X, 0.0, L2(0.3), generator(0))
    spent, _ = converse(flow, answer, candidates=7)
    assert spent == [q + 1] * 3 + [q_after + 1] * 4


def ends_of_range(n, seed):
    """Images with many pixels at 0 and at 1."""
    x = pictures(n, seed)
    where = torch.rand(x.shape, generator=generator(seed))
    return torch.where(where < 0.3, 0.0, torch.where(where > 0.7, 1.0, x))


@settings(max_examples=60)
@given(st.composite(rivals)(), st.integers(0, 20), st.sampled_from([L2(0.4), L2(2.0), Linf(0.03), Linf(0.3)]))
def test_every_row_sent_is_an_image_and_every_iterate_lies_in_the_ball(rival, seed, ball):
    attack, clip = rival
    (x,) = ends_of_range(1, seed)
    free = isinstance(attack, AutoZOOM) and attack.shrink

    def answer(query: Query) -> Answer:
        points = query.points
        assert points.isfinite().all()
        if clip or query.candidate or isinstance(attack, AutoZOOM):
            assert points.min() >= 0
            assert points.max() <= 1
        if query.candidate and not free:
            assert contains(ball, points, x).all()
        return canned(linear)(query)

    converse(attack.flow(x, float(linear(x[None])), ball, generator(seed)), answer, candidates=12)


VARIANTS = [
    ("nes", {"q": 6}),
    ("spsa", {"q": 6}),
    ("bandits", {"subspace": 2}),
    ("zoo", {"coordinates": 3}),
    ("autozoom", {}),
    ("autozoom", {"shrink": False, "q": 2}),
]


@settings(max_examples=40)
@given(st.sampled_from(VARIANTS), st.sampled_from(["l2", "linf"]), st.integers(1, 60), st.booleans())
def test_counts_are_exact_and_an_image_does_not_know_its_neighbours(variant, norm, budget, targeted):
    target, x = Tanh(0), pictures(4)
    y = labels_of(target, x)
    method, options = variant
    more = {"target_labels": (y + 1) % 4} if targeted else {}
    counter = Counter(target)
    run = {"method": method, "norm": norm, "eps": 0.3 if norm == "l2" else 0.05, "budget": budget, **options}
    together = dowse.attack(counter, x, y, concurrency=3, **run, **more)
    assert counter.rows == int(together.queries.sum()) == int(together.sent.sum())
    assert (together.queries <= budget).all()
    wanted = {"target_labels": more["target_labels"][3:]} if targeted else {}
    (alone,) = dowse.attack(target, x[3:], y[3:], concurrency=1, **run, **wanted).outcomes
    beside = together.outcomes[3]
    assert (alone.end, alone.queries) == (beside.end, beside.queries)
    assert torch.equal(alone.adversarial, beside.adversarial)
