"""The rivals' estimators on a linear function, against theory: |z| < 4 with fixed seeds."""

import math

import pytest
import torch

from dowse.attacks import SPSA, ZOO
from dowse.estimators import NES, Bandits
from tests.support import SHAPE, canned, generator

RUNS = 2000
SHAPES = [SHAPE, (1, 2, 2)]


def problem(shape):
    """An image in the middle of the range and a unit gradient, both of a shape."""
    g = torch.randn(shape, generator=generator(7), dtype=torch.float64)
    return torch.full(shape, 0.5, dtype=torch.float64), g / torch.linalg.vector_norm(g)


def linear(g):
    return lambda points: (points * g).flatten(1).sum(1)


def talk(flow, loss):
    """Answer a flow's questions until it returns."""
    question = next(flow)
    try:
        while True:
            question = flow.send(canned(loss)(question))
    except StopIteration as stop:
        return stop.value


def nes(n, x, g, rng):
    return talk(NES(q=2 * n).estimate(None, x, 0.0, rng), linear(g))[0].flatten()


def spsa(n, x, g, rng):
    return talk(SPSA(q=2 * n).gradient(x, rng), linear(g)).flatten()


def gaussian_law(n, D):
    return n / (n + D + 1)


def sign_law(n, D):
    return n / (n + D - 1)


def quality_z(estimates, g, expected):
    """How many standard errors (gᵀE[ĝ])² / E‖ĝ‖² lies from what theory says, by the delta method."""
    along, square = (estimates @ g.flatten()), estimates.square().sum(1)
    a, b = float(along.mean()), float(square.mean())
    gradient = torch.tensor([2 * a / b, -((a / b) ** 2)], dtype=torch.float64)
    covariance = torch.cov(torch.stack([along, square])) / len(along)
    return (a * a / b - expected) / math.sqrt(float(gradient @ covariance @ gradient))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [1, 5, 25])
@pytest.mark.parametrize(("estimate", "law", "other"), [(nes, gaussian_law, sign_law), (spsa, sign_law, gaussian_law)])
def test_an_estimate_is_as_good_as_its_directions_allow(estimate, law, other, n, shape):
    x, g = problem(shape)
    rng = generator(n)
    estimates = torch.stack([estimate(n, x, g, rng) for _ in range(RUNS)])
    assert abs(quality_z(estimates, g, law(n, g.numel()))) < 4
    if shape != SHAPE and n > 1:  # few dimensions tell the two laws apart
        assert abs(quality_z(estimates, g, other(n, g.numel()))) > 4


@pytest.mark.parametrize("estimate", [nes, spsa])
def test_an_estimate_is_unbiased(estimate):
    x, g = problem(SHAPE)
    rng = generator(0)
    estimates = torch.stack([estimate(10, x, g, rng) for _ in range(RUNS)])
    z = (estimates.mean(0) - g.flatten()) / (estimates.std(0) / math.sqrt(RUNS))
    assert float(z.abs().max()) < 4
    assert float(z.square().sum()) < g.numel() + 4 * math.sqrt(2 * g.numel())


def test_zoo_is_exact_on_its_coordinates():
    """Symmetric differences are exact for quadratic functions too."""
    x, g = problem(SHAPE)
    chosen = torch.tensor([0, 5, 17, 47])
    slopes = talk(ZOO().slopes(x, chosen), lambda p: linear(g)(p) + 3 * (p - 0.2).flatten(1).square().sum(1))
    assert torch.allclose(slopes, (g + 6 * (x - 0.2)).flatten()[chosen], rtol=1e-9)


ROUNDS = {"l2": 60, "linf": 150}


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("subspace", [None, 2])
def test_the_bandits_prior_finds_the_gradient_within_the_stated_rounds(norm, subspace):
    """D = 48, and d = 12 where a subspace holds the gradient; the prior starts at zero."""
    x, g = problem(SHAPE)
    if subspace is not None:
        g = g[:, ::2, ::2].repeat_interleave(2, 1).repeat_interleave(2, 2)
        g /= torch.linalg.vector_norm(g)
    estimator = Bandits(norm=norm, subspace=subspace)
    for seed in range(6):
        state, rng = estimator.init(x), generator(seed)
        for _ in range(ROUNDS[norm]):
            prior, state = talk(estimator.estimate(state, x, 0.0, rng), linear(g))
        assert float(torch.cosine_similarity(prior.flatten(), g.flatten(), dim=0)) > 0.5
