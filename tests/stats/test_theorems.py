"""Theorems 1 to 3 and E[β] against estimators run on a linear function with real finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dowse.maths import theory
from dowse.maths.sampling import biased, sphere, unit
from dowse.maths.subspace import Subspace

ESTIMATES = 20_000
SIGMA = 1e-4
SHAPE = (1, 4, 3)
D = 12
Sampler = Callable[[int, torch.Generator], Tensor]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(seed: int) -> tuple[Tensor, Tensor]:
    """A gradient ∇f (D,) of length about √D, and a prior v (D,) at an angle of about 60 degrees to it."""
    g, noise = torch.randn(2, D, generator=generator(seed), dtype=torch.float64)
    v = unit(unit(g) + 1.5 * unit(noise))
    assert v @ g > 0
    return g, v


def columns(subspace: Subspace) -> Tensor:
    """V (D, d)."""
    identity = torch.eye(subspace.d, dtype=torch.float64)
    return subspace.up(identity.view(-1, subspace.C, subspace.h, subspace.w)).flatten(1).T


def rgf(g: Tensor, q: int, directions: Sampler, rng: torch.Generator, count: int = ESTIMATES) -> Tensor:
    """Independent RGF estimates of the gradient of f(x) = ∇fᵀx at a point, Eq. (5): (count, len(g))."""
    x = torch.linspace(-1, 1, len(g), dtype=g.dtype)
    u = directions(count * q, rng).view(count * q, len(g))
    slopes = ((x + SIGMA * u) @ g - x @ g) / SIGMA
    return (slopes[:, None] * u).view(count, q, len(g)).mean(1)


def loss_and_error(g: Tensor, estimates: Tensor) -> tuple[float, float]:
    """L(ĝ) = ‖∇f‖² − (∇fᵀE[ĝ])²/E‖ĝ‖² from sample means, and its standard error by the delta method."""
    X, Y = estimates @ g, estimates.square().sum(1)
    x, y = X.mean(), Y.mean()
    influence = -2 * x / y * (X - x) + (x / y) ** 2 * (Y - y)
    return float(g @ g - x**2 / y), float(influence.std() / math.sqrt(len(X)))


def block_jackknife(statistic: Callable[[Tensor], float], rows: Tensor, blocks: int = 50) -> tuple[float, float]:
    """A statistic of i.i.d. rows, and its standard error from leaving out one block at a time."""
    parts = rows.chunk(blocks)
    left = torch.tensor([statistic(torch.cat(parts[:i] + parts[i + 1 :])) for i in range(blocks)]).double()
    return statistic(rows), float(((blocks - 1) * left.var(correction=0)).sqrt())


def no_prior() -> tuple[Sampler, Tensor]:
    like = torch.zeros(D, dtype=torch.float64)
    return lambda n, rng: sphere(n, like, rng), torch.eye(D).double() / D


def with_prior(λ: float) -> tuple[Sampler, Tensor]:
    _, v = problem(0)
    outer = torch.outer(v, v)
    C = λ * outer + (1 - λ) / (D - 1) * (torch.eye(D).double() - outer)  # Eq. (10)
    return lambda n, rng: biased(v, λ, sphere(n, v, rng)), C


def in_subspace() -> tuple[Sampler, Tensor]:
    subspace = Subspace(*SHAPE, 3, 2)
    V, like = columns(subspace), torch.zeros(SHAPE, dtype=torch.float64)
    return lambda n, rng: subspace.sphere(n, like, rng), V @ V.T / subspace.d


def with_both() -> tuple[Sampler, Tensor]:
    """Eq. (17) with the subspace of Appendix A.6, of which V'V'ᵀ = VVᵀ − v₁v₁ᵀ + v₁'v₁'ᵀ."""
    subspace, λ = Subspace(*SHAPE, 3, 2), 0.3
    _, v = problem(0)
    V, image = columns(subspace), v.view(SHAPE)
    v1 = unit(V @ (V.T @ v))
    v1_turned = unit(v1 - (v @ v1) * v)
    projection = V @ V.T - torch.outer(v1, v1) + torch.outer(v1_turned, v1_turned)
    C = λ * torch.outer(v, v) + (1 - λ) / subspace.d * projection
    return lambda n, rng: biased(image, λ, subspace.sphere_orthogonal(n, image, rng)), C


def from_a_list() -> tuple[Sampler, Tensor]:
    """A distribution with no symmetry at all: five unit vectors with unequal chances."""
    vectors = sphere(5, torch.zeros(D, dtype=torch.float64), generator(7))
    chances = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05], dtype=torch.float64)
    C = vectors.T @ (chances[:, None] * vectors)
    return lambda n, rng: vectors[torch.multinomial(chances, n, replacement=True, generator=rng)], C


DISTRIBUTIONS: dict[str, Callable[[], tuple[Sampler, Tensor]]] = {
    "uniform": no_prior,
    "lambda=0": lambda: with_prior(0.0),
    "lambda=0.1": lambda: with_prior(0.1),
    "lambda=0.7": lambda: with_prior(0.7),
    "subspace": in_subspace,
    "both": with_both,
    "list": from_a_list,
}


@pytest.mark.parametrize("q", [1, 2, 8])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_theorem_1(distribution: str, q: int) -> None:
    directions, C = DISTRIBUTIONS[distribution]()
    g, _ = problem(0)
    estimates = rgf(g, q, directions, generator(q))
    loss, error = loss_and_error(g, estimates)
    assert abs(loss - theory.rgf_loss(g, C, q)) < 4 * error
    assert abs(loss - theory.rgf_loss(g, C, 2 * q)) > 8 * error, "the test could not tell q from 2q"


@pytest.mark.parametrize("q", [8, 20])
def test_theorem_1_is_one_less_the_objective_of_lambda_star(q: int) -> None:
    """At λ* real estimates lose what Eq. (A.7) says, and less than without the prior: the chain P-RGF stands on."""
    g, v = problem(0)
    α2 = float((v @ g) ** 2 / (g @ g))
    λ = theory.lambda_star(α2, D, q)
    assert 0 < λ < 1
    directions, _ = with_prior(λ)
    loss, error = loss_and_error(g, rgf(g, q, directions, generator(10 + q)))
    assert abs(loss / float(g @ g) - (1 - theory.objective(λ, α2, D, q))) < 4 * error / float(g @ g)
    uniform, uniform_error = loss_and_error(g, rgf(g, q, no_prior()[0], generator(20 + q)))
    assert uniform - loss > 4 * math.hypot(error, uniform_error)


@pytest.mark.parametrize("q", [1, 5])
@pytest.mark.parametrize("μ", [0.0, 0.3, 0.7, 1.0])
def test_theorem_2(q: int, μ: float) -> None:
    g, v = problem(1)
    α = float(v @ unit(g))
    directions = unit(rgf(unit(g), q, no_prior()[0], generator(q), 60_000), batched=True)

    def gap(rows: Tensor) -> float:
        simulated = loss_and_error(unit(g), μ * v + (1 - μ) * rows)[0]
        return simulated - theory.averaging_loss(μ, α, float((rows @ unit(g)).mean()))

    value, error = block_jackknife(gap, directions)
    assert abs(value) < 4 * error + 1e-12  # at μ = 0 and 1 both sides are the same function of the sample


@pytest.mark.parametrize("q", [1, 5])
@pytest.mark.parametrize("μ", [0.0, 0.3, 0.7, 1.0])
def test_theorem_3(q: int, μ: float) -> None:
    g, v = problem(2)
    V = columns(Subspace(*SHAPE, 3, 2))
    along = V @ (V.T @ unit(g))
    α, α1, A2 = float(v @ unit(g)), float(v @ along), float(along @ along)
    directions = unit(rgf(unit(g), q, in_subspace()[0], generator(q), 60_000), batched=True)

    def gap(rows: Tensor) -> float:
        simulated = loss_and_error(unit(g), μ * v + (1 - μ) * rows)[0]
        return simulated - theory.averaging_loss_subspace(μ, α, α1, A2, float((rows @ unit(g)).mean()))

    value, error = block_jackknife(gap, directions)
    assert abs(value) < 4 * error + 1e-12
    if 0 < μ < 1:
        β = float((directions @ unit(g)).mean())
        without_subspace = theory.averaging_loss(μ, α, β)
        wrong = value + theory.averaging_loss_subspace(μ, α, α1, A2, β) - without_subspace
        assert abs(wrong) > 8 * error, "the test could not tell Theorem 3 from Theorem 2"


def simulated_cosine(g: Tensor, q: int, directions: Sampler, count: int) -> tuple[float, float]:
    """E[β] and its standard error."""
    estimates = rgf(g, q, directions, generator(1000 * len(g) + q), count)
    β = unit(estimates, batched=True) @ unit(g)
    return float(β.mean()), float(β.std() / math.sqrt(count))


@pytest.mark.parametrize(
    ("dimension", "q", "count"),
    [
        (2, 2, 40_000),
        (10, 1, 40_000),
        (10, 10, 20_000),
        (10, 40, 10_000),
        (50, 10, 5_000),
        (50, 200, 500),
        (100, 2, 20_000),
        (100, 50, 1_000),
        (1000, 10, 1_000),
        (1000, 50, 300),
    ],
)
def test_expected_cosine_is_off_by_no_more_than_its_docstring_says(dimension: int, q: int, count: int) -> None:
    """√(q/(D+q−1)) is an approximation, with a relative error (in simulation) from −0.4/D to 0.27/q."""
    like = torch.zeros(dimension, dtype=torch.float64)
    g = torch.randn(dimension, generator=generator(0), dtype=torch.float64)
    β, error = simulated_cosine(g, q, lambda n, rng: sphere(n, like, rng), count)
    off = theory.expected_cosine(dimension, q) / β - 1
    assert -0.4 / dimension - 4 * error / β < off < 0.27 / q + 4 * error / β
    assert error / β < 0.01


@pytest.mark.parametrize("dimension", [5, 100])
def test_expected_cosine_of_one_direction_is_off_by_a_known_factor(dimension: int) -> None:
    """With q = 1, β is the size of a coordinate: E|w₁| = Γ(D/2)/(√π·Γ((D+1)/2)), about √(2/π) of the formula."""
    like = torch.zeros(dimension, dtype=torch.float64)
    g = torch.randn(dimension, generator=generator(1), dtype=torch.float64)
    β, error = simulated_cosine(g, 1, lambda n, rng: sphere(n, like, rng), 20_000)
    exact = math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)
    assert abs(β - exact) < 4 * error
    assert theory.expected_cosine(dimension, 1) == pytest.approx(1 / math.sqrt(dimension))


def test_expected_cosine_subspace_is_that_of_the_subspace_times_a() -> None:
    """β inside the subspace is A times β of the projected gradient; the error has the same bounds, d for D."""
    subspace, q = Subspace(1, 12, 12, 5, 5), 10
    V, like = columns(subspace), torch.zeros(1, 12, 12, dtype=torch.float64)
    g = torch.randn(144, generator=generator(2), dtype=torch.float64)
    A2 = float((V.T @ unit(g)).square().sum())
    β, error = simulated_cosine(g, q, lambda n, rng: subspace.sphere(n, like, rng), 5_000)
    off = theory.expected_cosine_subspace(A2, subspace.d, q) / β - 1
    assert -0.4 / subspace.d - 4 * error / β < off < 0.27 / q + 4 * error / β
    assert error / β < 0.01
