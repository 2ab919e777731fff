"""BASES, P-BO and P-RGF over a span: what surrogates tell together, and what a Gaussian process makes of answers."""

import math

import pytest
import torch

import dowse
from dowse.attacks import BASES, PBO
from dowse.attacks.gaussian_process import fitted, matern
from dowse.attacks.pbo import Search
from dowse.core.flow import Look, Note, PriorAt, Pull, Query
from dowse.core.observers import Observer
from dowse.estimators import PRGF, PRGFSpan
from dowse.maths.geometry import L2, Linf
from dowse.maths.span import orthonormal, projection
from dowse.maths.theory import objective_span, prior_share
from tests.support import SHAPE, D, Linear, Tanh, generator, labels_of, pictures

TARGET = Tanh(0)
NEAR, FAR = Tanh(1, near=TARGET, apart=2.0), Tanh(2, near=TARGET, apart=2.0)
PICTURES = pictures(6)
LABELS = labels_of(TARGET, PICTURES)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


class Seeing(Observer):
    def __init__(self):
        self.points, self.notes = [], []

    def answered(self, task, query, reply):
        self.points.append(query.points.clone())

    def noted(self, task, values):
        self.notes.append(values)


# The span -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 48])
def test_orthonormal_rows_span_what_they_are_made_of(n):
    rows = random(n, *SHAPE)
    basis = orthonormal(rows).flatten(1)
    assert torch.allclose(basis @ basis.T, torch.eye(n, dtype=torch.float64), atol=1e-12)
    flat = rows.flatten(1)
    assert torch.allclose(flat @ basis.T @ basis, flat, atol=1e-10)


def test_rows_of_zero_and_repeated_rows_are_left_out():
    v, w = random(2, *SHAPE)
    kept = orthonormal(torch.stack([torch.zeros(SHAPE, dtype=torch.float64), v, 3 * v, w, v + w]))
    assert len(kept) == 2
    assert torch.allclose(kept[0], v / v.norm())


@pytest.mark.parametrize("n", [1, 5, 48])
def test_the_projection_is_the_gradients_own_onto_the_displacements(n):
    g, displacement = (
        random(D, seed=1),
        random(n, D, seed=2) * 10 ** torch.linspace(-5, 0, n, dtype=torch.float64)[:, None],
    )
    got = projection(displacement, displacement @ g)
    basis = orthonormal(displacement)
    assert torch.allclose(got, basis.T @ (basis @ g), atol=1e-8)
    assert not projection(torch.zeros(2, D, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)).any()


@pytest.mark.parametrize(("m", "q"), [(0, 5), (1, 5), (3, 10), (3, 0), (4, 44)])
def test_f_of_a_span_is_the_share_that_its_projection_explains(m, q):
    """Against Monte Carlo: |z| < 4 of the mean of cos² over random directions."""
    g, priors = random(D, seed=3), orthonormal(random(m, D, seed=4)) if m else torch.empty(0, D, dtype=torch.float64)
    α2, shares = float((priors @ g).square().sum() / g.square().sum()), []
    for seed in range(400):
        span = orthonormal(torch.cat([priors, random(q, D, seed=100 + seed)]))
        ĝ = span.T @ (span @ g)
        shares.append(float(1 - (g - ĝ).square().sum() / g.square().sum()))
    shares = torch.tensor(shares, dtype=torch.float64)
    expected, error = objective_span(α2, m, D, q), float(shares.std() / math.sqrt(len(shares)))
    assert abs(float(shares.mean()) - expected) < 4 * error + 1e-9


def test_the_priors_share_is_found_from_slopes():
    g = random(D, seed=5)
    basis = orthonormal(random(D, D, seed=6))
    slopes = basis @ g
    exact = float(slopes[:3].square().sum() / slopes.square().sum())
    assert prior_share(slopes[:3], slopes[3:], D - 3) == pytest.approx(exact)
    assert prior_share(torch.zeros(2), torch.zeros(3), 5) == 0
    for wrong in ((1.5, 1, 10, 2), (0.5, 8, 10, 3), (0.5, -1, 10, 3)):
        with pytest.raises(dowse.InputError):
            objective_span(*wrong)


def test_prgf_over_a_span_asks_a_query_for_each_prior_and_direction():
    seeing = Seeing()
    dowse.attack(
        TARGET, PICTURES[:1], LABELS[:1], method=PRGFSpan(q=5), surrogate=[NEAR, FAR], eps=0.1, budget=1 + 8 + 9 + 9,
        accept="never", observers=[seeing],
    )  # fmt: skip
    assert [len(points) for points in seeing.points] == [1, 2 + 5, 1, 3 + 5, 1, 3 + 5, 1]
    assert [note["priors"] for note in seeing.notes] == [2, 3, 3]
    assert all(0 <= note["prior_share"] <= 1 for note in seeing.notes)


def test_prgf_over_a_span_is_exact_in_as_many_directions_as_there_are():
    slope = random(*SHAPE, seed=7)
    target = Linear(
        torch.stack([torch.zeros(D, dtype=torch.float64), slope.flatten()]), torch.tensor([9.0, 0.0]).double()
    )
    found = dowse.estimate(
        target, PICTURES[:1], [0], method=PRGFSpan(q=100), surrogate=Tanh(4, classes=2), loss="margin"
    )
    assert torch.allclose(found.gradient[0], slope, atol=1e-5)


def test_the_preset_lean_is_ten_directions():
    run = {"surrogate": NEAR, "eps": 0.35, "budget": 100}
    lean, ten, more = (
        dowse.attack(TARGET, PICTURES, LABELS, method="prgf", **run, **options)
        for options in ({"preset": "lean"}, {"q": 10}, {"preset": "lean", "q": 50})
    )
    assert torch.equal(lean.adversarial, ten.adversarial)
    assert not torch.equal(lean.queries, more.queries)  # what is said beside a preset wins
    assert PRGF.presets["lean"] == {"q": 10}
    with pytest.raises(dowse.InputError, match="preset='lena' is unknown: did you mean 'lean'"):
        dowse.attack(TARGET, PICTURES, LABELS, method="prgf", preset="lena", **run)
    with pytest.raises(dowse.InputError, match="rgf has no presets"):
        dowse.attack(TARGET, PICTURES, LABELS, method="rgf", preset="lean", **run)


# BASES --------------------------------------------------------------------------------------------------------------


def conversation(attack, surrogates, losses, checks):
    """Talk to an attack; what it asks the target, and how often it pulls, between two checks."""
    from dowse.core.flow import Answer, Begin, Opening
    from dowse.core.prior import answer_all
    from dowse.maths.geometry import L2
    from dowse.maths.losses import Objective
    from dowse.surrogates.ensemble import Ensemble
    from dowse.surrogates.prior import SurrogatePrior

    objective = Objective("margin")
    prior = Ensemble([SurrogatePrior(net, objective) for net in surrogates])
    first = Answer(torch.zeros(1), torch.zeros(1, dtype=torch.bool), TARGET(PICTURES[:1]).detach())
    known = Opening(first, int(LABELS[0]), None, objective, len(surrogates))
    flow, reply, asked, pulls = attack.flow(PICTURES[0], 0.0, L2(0.3), generator(0)), None, [], 0
    while len(asked) < checks:
        match flow.send(reply):
            case Begin():
                reply = known
            case Note():
                reply = None
            case Query(points):
                asked.append((points[0], pulls))
                pulls, loss = 0, losses(len(asked))
                reply = first._replace(loss=torch.tensor([loss], dtype=torch.float64))
            case Look() | Pull() | PriorAt() as question:
                pulls += isinstance(question, Pull)
                (reply,) = answer_all(prior, [question], [known.label], [0])
    return asked


def test_bases_pulls_so_often_a_query_and_tries_a_weight_up_and_down():
    asked = conversation(BASES(steps=4), [NEAR, FAR], lambda n: -float(n), 7)
    assert [pulls for _, pulls in asked] == [4] * 7
    assert len({tuple(x.flatten().tolist()) for x, _ in asked}) == 7


def test_bases_with_one_surrogate_asks_no_image_twice():
    asked = conversation(BASES(steps=1, step=0.01), [NEAR], lambda n: -float(n), 6)
    assert len({tuple(x.flatten().tolist()) for x, _ in asked}) == 6


@pytest.mark.parametrize("surrogates", [[NEAR], [NEAR, FAR]], ids=["one", "two"])
def test_bases_gives_up_where_no_weight_leads_to_another_image(surrogates):
    """In l∞ steps along signs end in a corner that small changes of the weights do not leave."""
    seen = []

    def target(x):
        seen.extend(tuple(row.flatten().tolist()) for row in x)
        return TARGET(x)

    settings = {"method": BASES(rate=1e-6), "norm": "linf", "eps": 0.02, "budget": 60, "accept": "never"}
    result = dowse.attack(target, PICTURES[:1], LABELS[:1], surrogate=surrogates, **settings)
    assert result.end == [dowse.End.EXHAUSTED]
    assert result.queries[0] == len(seen) < 60
    assert len(set(seen)) == len(seen)


# P-BO ---------------------------------------------------------------------------------------------------------------


def test_the_kernel_is_materns_of_smoothness_five_halves():
    r = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    expected = (1 + 5**0.5 * r + 5 * r**2 / 3) * torch.exp(-(5**0.5) * r)
    assert torch.allclose(matern(r), expected)


def test_the_process_goes_through_what_was_observed_and_doubts_elsewhere():
    at, y, prior = random(12, 5), random(12, seed=1), random(12, seed=2)
    process = fitted(at, y, prior, "l2")
    for z, observed, known in zip(at, y, prior, strict=True):
        assert process.mean(z, float(known)) == pytest.approx(float(observed), abs=1e-3)
        assert process.deviation(z) < 0.05 * math.sqrt(process.scale)
    far = torch.full((5,), 100.0, dtype=torch.float64)
    assert process.deviation(far) == pytest.approx(math.sqrt(process.scale), rel=1e-3)


@pytest.mark.parametrize("λ", [0.3, 1.0, 2.5])
def test_a_prior_that_is_right_up_to_scale_is_found_out(λ):
    at, prior = random(10, 4), random(10, seed=3)
    process = fitted(at, 1.5 + λ * prior, prior, "l2")
    assert (process.weight, process.constant) == (pytest.approx(λ, abs=1e-6), pytest.approx(1.5, abs=1e-6))


def test_a_prior_that_misleads_has_no_weight_and_few_answers_leave_it_at_one():
    at, prior = random(10, 4), random(10, seed=3)
    assert fitted(at, -prior, prior, "l2").weight == 0
    assert fitted(at[:2], -prior[:2], prior[:2], "l2").weight == 1
    assert fitted(at, prior, torch.ones_like(prior), "l2").weight == 0  # it says nothing


def test_the_slope_of_correction_and_doubt_is_that_of_finite_differences():
    at, y, prior = random(8, 4), random(8, seed=1), random(8, seed=2)
    process, z, u = fitted(at, y, prior, "l2"), random(4, seed=5), random(4, seed=6)

    def bonus(t):
        return process.mean(z + t * u, 0.0) + 3 * process.deviation(z + t * u)

    slope = float(process.bonus_slope(z, 3.0) @ u)
    assert slope == pytest.approx((bonus(1e-5) - bonus(-1e-5)) / 2e-5, rel=1e-4)


@pytest.mark.parametrize("ball", [L2(2.0), Linf(0.4)], ids=["l2", "linf"])
def test_the_slope_in_pbos_grid_is_that_of_the_image_clipped(ball):
    """Some pixels reach the ends of [0, 1], and a grid of 3 × 2 divides the sides of 4 × 4 unevenly."""
    search, z, g = Search(PICTURES[0], ball, None), random(18, seed=1).view(3, 3, 2), random(48, seed=2).view(3, 4, 4)
    moved = search._moved(z)
    assert bool((moved < 0).any())
    assert bool((moved > 1).any())
    with torch.enable_grad():
        z.requires_grad_()
        (expected,) = torch.autograd.grad((search._moved(z).clamp(0, 1) * g).sum(), z)
    assert torch.allclose(search.pulled_back(g, z.detach()), expected, rtol=1e-12, atol=1e-15)


def test_pbo_asks_a_transfer_example_first():
    """With one observation λ is 1 and nothing else is known: the first query climbs the surrogate."""
    x = PICTURES[:1]
    seeing = Seeing()
    method = PBO(subspace=4, starts=1)
    dowse.attack(
        TARGET, x, LABELS[:1], method=method, surrogate=NEAR, eps=0.3, budget=2, accept="never", observers=[seeing]
    )

    def margin(point):
        z = NEAR(point).detach()[0]
        return (
            float(z[z.topk(2).indices[1]] - z[LABELS[0]])
            if int(z.argmax()) == LABELS[0]
            else float(z.max() - z[LABELS[0]])
        )

    assert margin(seeing.points[1]) > margin(x)
    assert seeing.notes[0]["lam"] == 1


@pytest.mark.parametrize("options", [{"subspace": 9}, {"subspace": (2, 5)}, {"subspace": 0}])
def test_a_grid_that_does_not_fit_is_refused(options):
    with pytest.raises(dowse.InputError, match="from 1 to those of the image"):
        dowse.attack(TARGET, PICTURES, LABELS, method=PBO(**options), surrogate=NEAR, budget=5)
