"""‖∇f‖² behind noise and from leaning probes: unbiased on a linear function with real finite differences."""

import math

import pytest
import torch
from torch import Tensor

from dowse.maths import theory
from dowse.maths.sampling import biased, sphere, unit

D, REPEATS = 270, 1500
LENGTH = 1e-2 * math.sqrt(D)


def normal(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


G = normal((D,), 0) + 0.5
V = unit(normal((D,), 1) + 0.3 * G)


def seen(directions: Tensor, τ: float, seed: int) -> Tensor:
    """Slopes of f(x) = ∇fᵀx along (n, S, D) directions: every answer has an error, f(x)'s is that of its set."""
    own, shared = normal(directions.shape[:2], seed), normal((len(directions), 1), seed + 1)
    return directions @ G + τ * (own - shared) / LENGTH


def z_score(values: list[float], expected: float) -> float:
    sample = torch.tensor(values, dtype=torch.float64)
    return float((sample.mean() - expected) / (sample.std() / math.sqrt(len(sample))))


@pytest.mark.parametrize("τ", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("S", [2, 10])
def test_the_norm_less_the_noise_is_unbiased(S: int, τ: float) -> None:
    rng = torch.Generator().manual_seed(S)
    slopes = seen(sphere(REPEATS * S, torch.zeros(D).double(), rng).view(REPEATS, S, D), τ, 5)
    squares = [theory.norm_square_noisy(row, D, τ**2 / LENGTH**2) for row in slopes]
    assert abs(z_score(squares, float(G @ G))) < 4
    if τ == 0.5:  # and Eq. (16) is not
        assert z_score([theory.gradient_norm(row, D) ** 2 for row in slopes], float(G @ G)) > 20


@pytest.mark.parametrize("τ", [0.0, 0.05])
@pytest.mark.parametrize("λ", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("alternating", [True, False])
def test_probes_that_lean_to_the_prior_tell_the_norm_too(λ: float, τ: float, alternating: bool) -> None:
    q, rng = 12, torch.Generator().manual_seed(7)
    signs = torch.ones(q, dtype=torch.float64)
    if alternating:
        signs[1::2] = -1
    ξ = sphere(REPEATS * q, torch.zeros(D).double(), rng)
    u = biased(V, λ, ξ).view(REPEATS, q, D) * signs[:, None]
    own, shared = normal((REPEATS, q), 11), normal((REPEATS, 1), 12)
    slopes = u @ G + τ * (own - shared) / LENGTH
    along = float(V @ G) + τ * (normal((REPEATS,), 13) - shared[:, 0]) / LENGTH
    squares = [
        theory.norm_square_leaning(row, signs, float(one), λ, D - 1, τ**2 / LENGTH**2)
        for row, one in zip(slopes, along, strict=True)
    ]
    assert abs(z_score(squares, float(G @ G))) < 4


def test_one_slope_has_no_variance() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        theory.norm_square_noisy(torch.ones(1), 5, 0.0)
