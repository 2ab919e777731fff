"""Where f is flat σ grows: every try is paid for, there is a last one, and σ returns to its start when it can."""

import math

import pytest
import torch

import dowse
from dowse.attacks import PGD
from dowse.estimators import PRGF, RGF, Averaging
from dowse.estimators.sigma import SIGMA_LIMIT
from dowse.maths.geometry import L2
from tests.support import SHAPE, Counter, Quantised, Tanh, canned, converse, estimate_of, generator, labels_of, pictures

X = torch.full(SHAPE, 0.5, dtype=torch.float64)
V = torch.ones(SHAPE, dtype=torch.float64)
SIGMA = 1e-4
ROOT = math.sqrt(X.numel())
BALL = L2(0.2)
DOUBLINGS = [SIGMA * 2**k for k in range(20) if SIGMA * 2**k < SIGMA_LIMIT] + [SIGMA_LIMIT]


def radii(query, x):
    return torch.linalg.vector_norm((query.points - x).flatten(1), dim=1) / ROOT


def listen(estimator, loss, candidates, prior=V):
    """Talk to PGD around an estimator with canned losses: (rows, mean radius per pixel) of each question."""
    heard, x = [], [X]

    def answer(query):
        heard.append((len(query.points), query.candidate, float(radii(query, x[0]).mean())))
        if query.candidate:
            x[0] = query.points[0]
        return canned(loss)(query)

    converse(PGD(estimator).flow(X, 0.0, BALL, generator(0)), answer, lambda _: prior.clone(), candidates=candidates)
    return heard


def flat(points):
    return torch.zeros(len(points), dtype=torch.float64)


def flat_below(radius, centre):
    """f = 0 within a radius per pixel around a moving centre, and the first pixel's sum beyond."""

    def loss(points):
        δ = (points - centre[0]).flatten(1)
        far = torch.linalg.vector_norm(δ, dim=1) / ROOT > radius
        return torch.where(far, δ.sum(1), 0.0)

    return loss


def test_two_scouts_go_ahead_of_a_flat_set_of_probes():
    heard = listen(RGF(q=4, sigma=SIGMA), flat, candidates=1)
    assert [n for n, *_ in heard] == [4] + [2] * (len(DOUBLINGS) - 2) + [4, 1]
    assert [r for *_, r in heard][:-1] == pytest.approx(DOUBLINGS, rel=1e-6)


def test_a_flat_single_probe_doubles_sigma_up_to_the_limit():
    heard = listen(Averaging(q=4, mu=0.5, sigma=SIGMA), flat, candidates=1)
    assert [n for n, *_ in heard] == [1] * len(DOUBLINGS) + [4, 1]  # σ is at its limit when the set is asked, once
    assert [r for *_, r in heard][:-1] == pytest.approx([*DOUBLINGS, SIGMA_LIMIT], rel=1e-6)


@pytest.mark.parametrize("estimator", [RGF(q=3), PRGF(q=3), PRGF(q=3, lam=0.5), PRGF(q=3, subspace=2), Averaging(q=3)])
def test_a_target_that_never_moves_is_no_endless_loop(estimator):
    heard = listen(estimator, flat, candidates=6)
    assert sum(candidate for _, candidate, _ in heard) == 6
    assert len(heard) < 6 * 2 * len(DOUBLINGS)
    assert max(r for *_, r in heard) <= SIGMA_LIMIT * (1 + 1e-9)


def test_sigma_stops_growing_where_a_slope_shows():
    centre = [X]
    heard = listen(RGF(q=4, sigma=SIGMA), flat_below(2e-3, centre), candidates=1)
    assert [round(r / SIGMA) for _, candidate, r in heard if not candidate] == [1, 2, 4, 8, 16, 32, 32]


def test_sigma_returns_to_its_start_with_two_probes_every_second_iteration():
    """f is flat at the first two iterates and steep from then on."""
    iterates = [0]

    def loss(points):
        if iterates[0] < 2:
            return flat(points)
        return points.flatten(1).sum(1) * 3 + 1

    def answer(query):
        iterates[0] += query.candidate
        asked.append((iterates[0], len(query.points), float(radii(query, X).mean())))
        return canned(loss)(query)

    asked = []
    converse(PGD(RGF(q=4, sigma=SIGMA), step=1e-12).flow(X, 0.0, BALL, generator(0)), answer, candidates=4)
    rows = [[(n, round(r, 6)) for k, n, r in asked if k == i] for i in range(4)]
    limit = round(SIGMA_LIMIT, 6)
    assert rows[0][0] == (4, SIGMA)
    assert rows[0][-1] == (4, limit)
    assert rows[1][1:] == [(4, limit)]  # an odd iteration keeps what it has
    assert rows[2][1:] == [(2, SIGMA), (4, SIGMA)]  # an even one tries the start, and it does
    assert rows[3][1:] == [(4, SIGMA)]


def test_sigma_stays_grown_while_its_start_would_not_do():
    heard = listen(RGF(q=4, sigma=SIGMA), flat, candidates=5)
    tries = [(n, round(r / SIGMA)) for n, candidate, r in heard if not candidate][len(DOUBLINGS) :]
    grown = (4, round(SIGMA_LIMIT / SIGMA))
    assert tries == [grown, (2, 1), grown, grown, (2, 1), grown]


def test_a_start_beyond_the_limit_is_left_alone():
    heard = listen(RGF(q=4, sigma=0.3, clip_probes=False), flat, candidates=3)
    assert [n for n, *_ in heard] == [4, 1] * 3
    assert all(r == pytest.approx(0.3) for n, candidate, r in heard if not candidate)


def test_one_moving_probe_is_enough():
    def loss(points):
        values = flat(points)
        values[-1] = 1e-300
        return values

    heard = listen(RGF(q=4, sigma=SIGMA), loss, candidates=3)
    assert [n for n, *_ in heard] == [4, 1] * 3


def test_probes_that_clipping_leaves_no_room_are_no_endless_loop():
    white = torch.ones(SHAPE, dtype=torch.float64)
    flow = PGD(Averaging(q=3, mu=0.5)).flow(white, 0.0, BALL, generator(0))
    spent, _ = converse(flow, canned(lambda p: p.flatten(1).sum(1)), lambda _: V.clone(), candidates=3)
    assert all(n < 40 for n in spent)


@pytest.mark.parametrize("method", ["rgf", "prgf", "averaging"])
@pytest.mark.parametrize("budget", [5, 23, 200])
def test_growth_is_paid_for(method, budget):
    target = Quantised(Tanh(0), 0.5)
    x = pictures(4)
    counter = Counter(target)
    result = dowse.attack(
        counter, x, labels_of(target, x), method=method, surrogate=Tanh(1, near=target.target), eps=0.4, q=4,
        budget=budget,
    )  # fmt: skip
    assert counter.rows == int(result.queries.sum())
    assert (result.queries <= budget).all()


def test_a_coarse_target_is_fooled_because_sigma_grows():
    """Scores in steps of 0.2 show no slope at the paper's σ; grown probes see one."""
    target = Quantised(Tanh(0), 0.2)
    x = pictures(8)
    result = dowse.attack(target, x, labels_of(target, x), method="rgf", q=20, eps=0.8, budget=1500)
    assert int(result.success.sum()) >= 6


def test_every_row_sent_is_an_image():
    x = pictures(3).round()  # black and white pixels only
    seen = []

    def target(points):
        seen.append(points.clone())
        return Tanh(0)(points)

    for clip in (True, False):
        seen.clear()
        dowse.attack(target, x, method="rgf", q=10, budget=60, clip_probes=clip)
        rows = torch.cat(seen)
        assert bool(((rows >= 0) & (rows <= 1)).all()) == clip


def test_the_displacement_really_sent_is_what_counts():
    """Half of the pixels are white and can only fall; the estimate for the others is right all the same."""
    rng = generator(1)
    slope = torch.randn(SHAPE, generator=rng, dtype=torch.float64)
    white = torch.rand(SHAPE, generator=rng) < 0.5
    x = torch.where(white, 1.0, 0.5).double()
    ĝ, _ = estimate_of(RGF(q=20_000), x, lambda points: (points * slope).flatten(1).sum(1))
    assert float(torch.cosine_similarity(ĝ[~white], slope[~white], dim=0)) > 0.95
    assert float((ĝ * slope).sum()) > 0
