"""What each method costs per iteration, read off conversations with canned answers and no model at all."""

from dataclasses import dataclass

import pytest
import torch

from dowse.attacks import PGD, Transfer, WhiteBox
from dowse.core.flow import Answer
from dowse.estimators import PRGF, RGF, Averaging
from dowse.maths.geometry import L2
from tests.support import SHAPE, D, canned, converse, estimate_of, generator

Q, S, PERIOD = 7, 20, 4
X = torch.full(SHAPE, 0.5, dtype=torch.float64)
FIRST = torch.zeros(SHAPE, dtype=torch.float64)
FIRST[0, 0, 0] = 1.0  # the transfer gradient of every conversation here: the first pixel
BALL = L2(0.2)


@dataclass(frozen=True)
class Slope:
    """f(x) = slope · (the first pixel) + rest · (a fixed direction without it): α follows from the two numbers."""

    first: float
    rest: float

    def __call__(self, points: torch.Tensor) -> torch.Tensor:
        other = torch.randn(SHAPE, generator=generator(5), dtype=torch.float64)
        other[0, 0, 0] = 0
        other /= torch.linalg.vector_norm(other)
        flat = points.flatten(1)
        return self.first * flat[:, 0] + self.rest * flat @ other.flatten()


PARALLEL, ORTHOGONAL, MIXED = Slope(1.0, 0.0), Slope(1e-6, 1.0), Slope(0.5, 1.0)


def per_iteration(estimator, loss, iterations=9):
    flow = PGD(estimator).flow(X, float(loss(X[None])), BALL, generator(0))
    return converse(flow, canned(loss), lambda x: FIRST.clone(), candidates=iterations)


def with_norms(cost, iterations=9, probes=S):
    return [cost + probes * (i % PERIOD == 0) for i in range(iterations)]


def test_rgf():
    spent, _ = per_iteration(RGF(q=Q), MIXED)
    assert spent == [Q + 1] * 9


@pytest.mark.parametrize("lam", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("subspace", [None, 2])
def test_prgf_with_a_fixed_lambda_asks_for_no_slope_and_no_norm(lam, subspace):
    spent, notes = per_iteration(PRGF(q=Q, lam=lam, subspace=subspace), MIXED)
    assert spent == [Q + 1] * 9
    assert [note["lam"] for note in notes] == [lam] * 9


@pytest.mark.parametrize("subspace", [None, 2])
@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_averaging_with_a_fixed_mu_settles_the_sign_with_one_query(mu, subspace):
    spent, _ = per_iteration(Averaging(q=Q, mu=mu, subspace=subspace), MIXED)
    assert spent == [Q + 2] * 9


@pytest.mark.parametrize("kind", [PRGF, Averaging])
def test_optimal_weight_costs_two_where_the_prior_is_enough(kind):
    spent, notes = per_iteration(kind(q=Q, norm_samples=S, norm_period=PERIOD), PARALLEL)
    assert spent == with_norms(2)
    assert all(note.get("lam", note.get("mu")) >= 1 / (1 + 2**0.5) for note in notes)
    assert kind is Averaging or all(note["lam"] == 1 for note in notes)


@pytest.mark.parametrize("kind", [PRGF, Averaging])
def test_optimal_weight_costs_q_plus_two_elsewhere(kind):
    spent, _ = per_iteration(kind(q=Q, norm_samples=S, norm_period=PERIOD), ORTHOGONAL)
    assert spent == with_norms(Q + 2)


@pytest.mark.parametrize("kind", [PRGF, Averaging])
@pytest.mark.parametrize(
    ("given", "probes"), [({}, 2 * S), ({"a_square": 0.9}, S), ({"a_square": 0.0}, S), ({"gamma": 3.5}, S)]
)
def test_a_subspace_doubles_the_probes_unless_a_square_is_given(kind, given, probes):
    estimator = kind(q=Q, norm_samples=S, norm_period=PERIOD, subspace=2, **given)
    spent, notes = per_iteration(estimator, ORTHOGONAL)
    told = [cost for cost, note in zip(spent, notes, strict=True) if note.get("lam", note.get("mu")) < 0.4]
    assert spent == [
        (Q + 2 if note.get("lam", note.get("mu")) < 0.4 else 2) + probes * (i % PERIOD == 0)
        for i, note in enumerate(notes)
    ]
    assert told or given == {"a_square": 0.0}  # a subspace that knows nothing leaves only the prior
    expected = given.get("a_square", min(1.0, given.get("gamma", 0) * 12 / D))
    assert not given or all(note["a_square"] == pytest.approx(expected) for note in notes)


@pytest.mark.parametrize("exact", [False, True])
def test_the_orthogonal_sampler_costs_the_same(exact):
    estimator = PRGF(q=Q, norm_samples=S, norm_period=PERIOD, subspace=2, exact_subspace=exact)
    spent, _ = per_iteration(estimator, ORTHOGONAL)
    assert spent == with_norms(Q + 2, probes=2 * S)


@pytest.mark.parametrize("kind", [PRGF, Averaging])
def test_the_papers_schedule_is_the_default(kind):
    spent, _ = per_iteration(kind(), ORTHOGONAL, iterations=21)
    assert spent == [52 + 10 * (i % 10 == 0) for i in range(21)]


@pytest.mark.parametrize("kind", [PRGF, Averaging])
def test_a_falling_slope_flips_the_prior(kind):
    ĝ, rows = estimate_of(kind(q=Q, norm_samples=S), X, Slope(-1.0, 0.0), FIRST)
    assert torch.equal(ĝ, -FIRST)
    assert rows == 1 + S


def test_a_fixed_mu_takes_the_prior_with_its_right_sign():
    for sign in (1, -1):
        ĝ, rows = estimate_of(Averaging(q=Q, mu=1.0), X, Slope(0.5, 1.0), sign * FIRST)
        assert torch.equal(ĝ, FIRST)
        assert rows == Q + 1


@pytest.mark.parametrize("lam", [0.05, 0.5])
def test_a_fixed_lambda_is_even_in_the_prior(lam):
    """Why it needs no slope: v and −v lead to the same estimate."""
    up, down = (estimate_of(PRGF(q=4000, lam=lam), X, MIXED, sign * FIRST)[0].flatten() for sign in (1, -1))
    assert up[0] > 0
    assert down[0] > 0
    assert float(torch.cosine_similarity(up, down, dim=0)) > 0.95


@pytest.mark.parametrize("kind", [PRGF, Averaging])
def test_noisy_estimates_of_the_cosine_stay_in_range(kind):
    """With one probe for each norm, the ratios leave [0, 1] half of the time; α̂ and Â² do not."""
    estimator = kind(q=Q, norm_samples=1, norm_period=1, subspace=2)
    _, notes = per_iteration(estimator, PARALLEL, iterations=40)
    for name in ("alpha", "a_square"):
        values = [note[name] for note in notes]
        assert all(0 <= value <= 1 for value in values)
        assert 1 in values
        assert min(values) < 1


def test_a_surrogate_without_a_gradient_costs_nothing_more():
    flow = PGD(PRGF(q=Q, norm_samples=S, norm_period=PERIOD)).flow(X, float(MIXED(X[None])), BALL, generator(0))
    spent, notes = converse(flow, canned(MIXED), torch.zeros_like, candidates=9)
    assert spent == with_norms(Q + 1)
    assert all(note["alpha"] == note["lam"] == 0 for note in notes)


def test_transfer_asks_once_in_all():
    spent, _ = converse(
        Transfer(steps=5).flow(X, 0.0, BALL, generator(0)), canned(MIXED), lambda x: FIRST, candidates=1
    )
    assert spent == [1]


def test_whitebox_asks_once_a_step():
    def answer(query):
        gradient = FIRST[None] if query.gradient else None
        return Answer(torch.zeros(1), torch.zeros(1, dtype=torch.bool), torch.zeros(1, 2), gradient)

    flow = WhiteBox(steps=5).flow(X, 0.0, BALL, generator(0))
    spent, _ = converse(flow, answer, candidates=6)
    assert spent == [1] * 6
