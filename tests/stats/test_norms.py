"""The estimates of ‖∇f‖ (Eq. 16) and of A² (Appendix C), on a linear function with real finite
differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dowse.maths import theory
from dowse.maths.sampling import sphere
from dowse.maths.subspace import Subspace

SHAPE = (1, 18, 15)
D = 270
REPEATS = 4000


def slopes(g: Tensor, directions: Tensor) -> Tensor:
    """(f(x+σw) − f(x))/σ for f(x) = ∇fᵀx + 5, Eq. (13), with the paper's σ = 10⁻⁴·√D."""
    x, σ = torch.linspace(0, 1, D, dtype=torch.float64), 1e-4 * math.sqrt(D)
    at_x = x @ g + 5
    return ((x + σ * directions.flatten(1)) @ g + 5 - at_x) / σ


def gradient() -> Tensor:
    """∇f with a mean, which the subspace keeps, and noise, of which it loses most: A² is neither 0 nor 1."""
    image = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (image + 0.5).flatten()


def z_score(values: Tensor, expected: float) -> float:
    return float((values.mean() - expected) / (values.std() / math.sqrt(len(values))))


@pytest.mark.parametrize("S", [1, 3, 10])
def test_the_square_of_gradient_norm_is_unbiased_and_of_known_variance(S: int) -> None:
    """w₁² of the unit sphere has relative variance 2(D−1)/(D+2), so the mean of S of them has that over S."""
    g, rng = gradient(), torch.Generator().manual_seed(S)
    all_slopes = slopes(g, sphere(REPEATS * S, torch.zeros(D, dtype=torch.float64), rng)).view(REPEATS, S)
    squares = torch.tensor([theory.gradient_norm(row, D) ** 2 for row in all_slopes], dtype=torch.float64)
    true = float(g @ g)
    assert abs(z_score(squares, true)) < 4
    variance = 2 * (D - 1) / (D + 2) / S
    assert abs(z_score((squares / true - 1).square(), variance)) < 4


@pytest.mark.parametrize("S", [4, 10, 30])
def test_the_relative_error_of_gradient_norm_is_near_one_over_the_root_of_two_s(S: int) -> None:
    """The estimate is ‖∇f‖·χ_S/√S as D grows, whose relative RMSE is √(2 − 2E[χ_S]/√S) = (1 − O(1/S))/√(2S).

    It is below 1/√(2S), by 2 % at S = 4, 0.6 % at S = 10 and 0.2 % at S = 30. At D = 270 by 0.6 % more, since the
    relative variance of w₁² is 2(D−1)/(D+2) and not 2.
    """
    mean = math.sqrt(2 / S) * math.exp(math.lgamma((S + 1) / 2) - math.lgamma(S / 2))  # E[χ_S]/√S
    of_large_D = 2 - 2 * mean
    assert math.sqrt(of_large_D * 2 * S) == pytest.approx(1, abs=0.021)
    g, rng = gradient(), torch.Generator().manual_seed(100 + S)
    all_slopes = slopes(g, sphere(REPEATS * S, torch.zeros(D, dtype=torch.float64), rng)).view(REPEATS, S)
    norms = torch.tensor([theory.gradient_norm(row, D) for row in all_slopes], dtype=torch.float64)
    errors = (norms / torch.linalg.vector_norm(g) - 1).square()
    assert abs(z_score(errors, of_large_D * (D - 1) / (D + 2))) < 4
    assert math.sqrt(float(errors.mean()) * 2 * S) == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("sides", [(3, 3), (7, 4)])
def test_the_square_of_the_projection_is_unbiased(sides: tuple[int, int]) -> None:
    """`a_square` with a norm so large that nothing is clipped is ‖h‖²/norm², and E‖h‖² is ‖Vᵀ∇f‖²."""
    g, rng, S = gradient(), torch.Generator().manual_seed(5), 10
    subspace = Subspace(*SHAPE, *sides)
    directions = subspace.sphere(REPEATS * S, torch.zeros(SHAPE, dtype=torch.float64), rng)
    all_slopes = slopes(g, directions).view(REPEATS, S)
    norm = 100 * float(torch.linalg.vector_norm(g))
    squares = [norm**2 * theory.a_square(row, subspace.d, norm) for row in all_slopes]
    true = float(subspace.down(g.view(1, *SHAPE)).square().sum())
    assert 0.1 < true / float(g @ g) < 0.6
    assert abs(z_score(torch.tensor(squares, dtype=torch.float64), true)) < 4


def test_a_square_with_an_estimated_norm_is_near_the_truth() -> None:
    """With S = 2000 slopes each the relative error of A² is about √(2/S + 2/S) = 4.5 %: two independent means."""
    g, rng, S = gradient(), torch.Generator().manual_seed(6), 2000
    subspace, like = Subspace(*SHAPE, 7, 4), torch.zeros(SHAPE, dtype=torch.float64)
    norm = theory.gradient_norm(slopes(g, sphere(S, like, rng)), D)
    estimate = theory.a_square(slopes(g, subspace.sphere(S, like, rng)), subspace.d, norm)
    true = float(subspace.down(g.view(1, *SHAPE)).square().sum() / (g @ g))
    assert abs(estimate / true - 1) < 4 * math.sqrt(4 / S)
