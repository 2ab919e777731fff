"""The closed forms against what defines them: grids of their objectives, exact arithmetic, and their limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dowse.maths import theory

law = settings(deadline=None, max_examples=300, derandomize=True)
dimensions = st.integers(2, 200_000)
directions = st.integers(2, 500)
shares = st.floats(0, 1)


def grid_argmax(F: Callable[[float], float]) -> tuple[float, float, float]:
    """The best point of F on a grid of [0, 1] (uniform and logarithmic), refined twice; its value; the last step."""
    points = np.unique(np.union1d(np.linspace(0, 1, 301), np.geomspace(1e-9, 1, 200)).round(12))
    for _ in range(3):
        values = [F(float(x)) for x in points]
        i = int(np.argmax(values))
        below, above = points[max(i - 1, 0)], points[min(i + 1, len(points) - 1)]
        best, value, step = float(points[i]), values[i], float(above - below)
        points = np.linspace(below, above, 81)
    return best, value, step


def assert_optimal(x: float, F: Callable[[float], float]) -> None:
    """x maximises F over [0, 1]: in value to rounding, and in place to the grid's step.

    In place also to the square root of rounding, because F is flat to second order where it is best.
    """
    best, value, step = grid_argmax(F)
    assert F(x) >= value - 1e-13 * max(1.0, abs(value))
    if F(best) - F(min(best + 1e-3, 1)) > 1e-9 and F(best) - F(max(best - 1e-3, 0)) > 1e-9:
        assert abs(x - best) <= step + 1e-3 * math.sqrt(1e-15 / 1e-9)


def regime(x: float) -> str:
    return "zero" if x == 0 else "one" if x == 1 else "between"


def test_lambda_star_is_the_grid_optimum() -> None:
    random = np.random.default_rng(0)
    seen = {"zero": 0, "between": 0, "one": 0}
    for _ in range(400):
        D, q = int(np.exp(random.uniform(np.log(2), np.log(200_000)))), int(random.integers(2, 100))
        edge = [1, 2 * q - 1][int(random.integers(2))] / (D + 2 * q - 2)
        α2 = min(1.0, edge * float(random.uniform(0, 2)))
        λ = theory.lambda_star(α2, D, q)
        seen[regime(λ)] += 1
        assert_optimal(λ, lambda x, α2=α2, D=D, q=q: theory.objective(x, α2, D, q))  # type: ignore[misc]
    assert min(seen.values()) >= 50, seen


def test_lambda_star_subspace_is_the_grid_optimum() -> None:
    random = np.random.default_rng(1)
    seen = {"zero": 0, "between": 0, "one": 0}
    for _ in range(400):
        d, q = int(np.exp(random.uniform(0, np.log(10_000)))), int(random.integers(2, 100))
        A2 = float(random.uniform(0.001, 1))
        edge = [A2 / (d + 2 * q - 2), A2 * (2 * q - 1) / d][int(random.integers(2))]
        α2 = min(1.0, edge * float(random.uniform(0, 2)))
        λ = theory.lambda_star_subspace(α2, A2, d, q)
        seen[regime(λ)] += 1
        assert_optimal(
            λ,
            lambda x, α2=α2, A2=A2, d=d, q=q: theory.objective_subspace(x, α2, A2, d, q),  # type: ignore[misc]
        )
    assert min(seen.values()) >= 50, seen


@law
@given(shares, dimensions, directions)
def test_lambda_star_is_equation_12_in_exact_arithmetic(α2: float, D: int, q: int) -> None:
    a = Fraction(α2)
    if a <= Fraction(1, D + 2 * q - 2):
        exact = Fraction(0)
    elif a >= Fraction(2 * q - 1, D + 2 * q - 2):
        exact = Fraction(1)
    else:
        exact = (1 - a) * (a * (D + 2 * q - 2) - 1) / (2 * a * D * q - a**2 * D * (D + 2 * q - 2) - 1)
    assert theory.lambda_star(α2, D, q) == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


@law
@given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.integers(1, 20_000), directions)
def test_lambda_star_subspace_is_equation_18_in_exact_arithmetic(α2: float, A2: float, d: int, q: int) -> None:
    a, A = Fraction(α2), Fraction(A2)
    if a <= A / (d + 2 * q - 2):
        exact = Fraction(0)
    elif a >= A * (2 * q - 1) / d:
        exact = Fraction(1)
    else:
        exact = A * (A - a * (d + 2 * q - 2)) / (A**2 + a**2 * d**2 - 2 * A * a * (q + d * q - 1))
    assert theory.lambda_star_subspace(α2, A2, d, q) == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


@law
@given(shares, dimensions, st.integers(1, 500))
def test_the_subspace_of_all_that_is_orthogonal_to_v_is_no_subspace(α2: float, D: int, q: int) -> None:
    """With V a basis of v's complement, Eq. (17) is Eq. (10): d = D − 1 and A² = 1 − α²."""
    within = theory.lambda_star_subspace(α2, 1 - α2, D - 1, q)
    if q == 1:  # a jump at α² = 1/D, where rounding may fall to either side
        assume(abs(α2 * D - 1) > 1e-9)
    assert within == pytest.approx(theory.lambda_star(α2, D, q), rel=1e-6, abs=1e-9)
    for λ in (0.0, 0.3, 1.0):
        assert theory.objective_subspace(λ, α2, 1 - α2, D - 1, q) == theory.objective(λ, α2, D, q)


@law
@given(st.floats(0, 1e300), st.floats(0, 1e300), st.integers(1, 200_000), st.integers(1, 10_000))
def test_lambda_stars_stay_inside_the_unit_interval(x: float, y: float, D: int, q: int) -> None:
    assert 0 <= theory.lambda_star(x, D, q) <= 1
    assert 0 <= theory.lambda_star_subspace(x, y, D, q) <= 1


@law
@given(dimensions, st.integers(1, 500), st.integers(-3, 3), st.booleans())
def test_lambda_stars_stay_inside_within_rounding_of_a_threshold(D: int, q: int, steps: int, upper: bool) -> None:
    α2 = (2 * q - 1 if upper else 1) / (D + 2 * q - 2)
    ρ = (2 * q - 1) / D if upper else 1 / (D + 2 * q - 2)
    for _ in range(abs(steps)):
        α2, ρ = (math.nextafter(x, math.copysign(math.inf, steps)) for x in (α2, ρ))
    assert 0 <= theory.lambda_star(α2, D, q) <= 1
    assert 0 <= theory.lambda_star_subspace(ρ * 0.3, 0.3, D, q) <= 1


@law
@given(shares, shares, shares, dimensions, directions)
def test_lambda_stars_increase_in_alpha_square(x: float, y: float, A2: float, D: int, q: int) -> None:
    low, high = sorted((x, y))
    assert theory.lambda_star(low, D, q) <= theory.lambda_star(high, D, q) + 1e-12
    assert theory.lambda_star_subspace(low, A2, D, q) <= theory.lambda_star_subspace(high, A2, D, q) + 1e-12


@law
@given(st.floats(1, 1e5, exclude_min=True), dimensions, directions, directions)
def test_lambda_stars_decrease_in_q_for_a_prior_better_than_random(times: float, D: int, q1: int, q2: int) -> None:
    α2, A2 = times / D, 0.5
    few, many = sorted((q1, q2))
    if α2 <= 1:
        assert theory.lambda_star(α2, D, few) >= theory.lambda_star(α2, D, many) - 1e-12
    assert theory.lambda_star_subspace(α2 * A2, A2, D, few) >= theory.lambda_star_subspace(α2 * A2, A2, D, many) - 1e-12


def test_lambda_stars_move_strictly_between_the_thresholds() -> None:
    D, q, A2 = 3072, 10, 0.4
    rising = [theory.lambda_star(x / D, D, q) for x in np.linspace(1, 18, 50)]
    assert all(a < b for a, b in pairwise(rising))
    falling = [theory.lambda_star(5 / D, D, q) for q in range(3, 40)]
    assert all(a > b for a, b in pairwise(falling))
    rising = [theory.lambda_star_subspace(x * A2 / D, A2, D, q) for x in np.linspace(1, 18, 50)]
    assert all(a < b for a, b in pairwise(rising))
    falling = [theory.lambda_star_subspace(5 * A2 / D, A2, D, q) for q in range(4, 40)]
    assert all(a > b for a, b in pairwise(falling))


@law
@given(dimensions, directions)
def test_lambda_star_is_continuous_at_both_thresholds(D: int, q: int) -> None:
    """δ beyond a threshold, λ* moves by (its slope there)·δ, here doubled to cover the curvature."""
    m, δ = D + 2 * q - 2, 1e-7 / q
    assert theory.lambda_star(1 / m, D, q) <= 1e-14
    assert theory.lambda_star((1 + δ) / m, D, q) <= 2 * δ * m / ((D - 1) * (2 * q - 2))
    assert theory.lambda_star((2 * q - 1) / m, D, q) >= 1 - 1e-11 * q
    assert theory.lambda_star((2 * q - 1) * (1 - δ) / m, D, q) >= 1 - 2 * δ * (2 * q - 1) ** 2 / (2 * q - 2)


@law
@given(st.floats(1e-3, 1), dimensions, directions)
def test_lambda_star_subspace_is_continuous_at_both_thresholds(A2: float, d: int, q: int) -> None:
    m, δ = d + 2 * q - 2, 1e-7 / q
    low, high = A2 / m, A2 * (2 * q - 1) / d
    lower_slope = m / d / ((2 * q - 1) - d / m)
    upper_slope = (2 * q - 1) ** 2 / ((2 * q - 1) * m / d - 1)
    assert theory.lambda_star_subspace(low, A2, d, q) <= 1e-14 * lower_slope
    assert theory.lambda_star_subspace(low * (1 + δ), A2, d, q) <= 2 * δ * lower_slope
    assert theory.lambda_star_subspace(high, A2, d, q) >= 1 - 1e-14 * upper_slope
    assert theory.lambda_star_subspace(high * (1 - δ), A2, d, q) >= 1 - 2 * δ * upper_slope


def test_degenerate_inputs() -> None:
    assert theory.lambda_star(0, 100, 10) == 0
    assert theory.lambda_star(1, 100, 10) == 1
    assert theory.lambda_star(1.7, 100, 10) == 1
    assert theory.lambda_star(0.0099, 100, 1) == 0
    assert theory.lambda_star(0.0101, 100, 1) == 1
    assert theory.lambda_star(0.5, 1, 5) == 1
    assert theory.lambda_star_subspace(0.5, 0, 100, 10) == 1
    assert theory.lambda_star_subspace(0, 0, 100, 10) == 0
    assert theory.lambda_star_subspace(0, 0.5, 100, 10) == 0
    assert theory.lambda_star_subspace(0.0049, 0.5, 100, 1) == 0
    assert theory.lambda_star_subspace(0.0051, 0.5, 100, 1) == 1
    assert theory.lambda_star_subspace(1, 0.5, 100, 10) == 1
    assert 0 < theory.lambda_star_subspace(1, 1, 10, 10) < 1
    assert theory.objective(1, 0, 10, 5) == 0
    assert theory.objective_subspace(0, 0.5, 0, 10, 5) == 0


@law
@given(st.floats(1e-3, 1), st.floats(1e-3, 1), st.integers(1, 5000), directions)
def test_lambda_star_subspace_knows_only_the_ratio(α2: float, A2: float, d: int, q: int) -> None:
    scaled = theory.lambda_star_subspace(α2 * 2.0**-900, A2 * 2.0**-900, d, q)
    assert scaled == theory.lambda_star_subspace(α2, A2, d, q)


@law
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(1, 12), shares)
def test_the_objectives_are_theorem_1(seed: int, D: int, q: int, λ: float) -> None:
    random = np.random.default_rng(seed)
    g, v = random.normal(size=(2, D))
    v /= np.linalg.norm(v)
    α2 = (v @ g) ** 2 / (g @ g)
    C = λ * np.outer(v, v) + (1 - λ) / (D - 1) * (np.eye(D) - np.outer(v, v))  # Eq. (10)
    loss = theory.rgf_loss(g, C, q)
    assert 1 - loss / (g @ g) == pytest.approx(theory.objective(λ, α2, D, q), abs=1e-11)
    assert theory.rgf_loss(torch.from_numpy(g), torch.from_numpy(C), q) == pytest.approx(loss)

    d = int(random.integers(1, D))
    V = np.linalg.qr(np.column_stack([v, random.normal(size=(D, d))]))[0][:, 1:]
    A2 = ((V.T @ g) ** 2).sum() / (g @ g)
    C = λ * np.outer(v, v) + (1 - λ) / d * V @ V.T  # Eq. (17), v orthogonal to the subspace
    explained = 1 - theory.rgf_loss(g, C, q) / (g @ g)
    assert explained == pytest.approx(theory.objective_subspace(λ, α2, A2, d, q), abs=1e-11)


def test_equation_a11_leaves_out_a_term_unless_the_prior_is_orthogonal_to_the_subspace() -> None:
    """∇fᵀC²∇f holds 2λ(1−λ)/d·α·α₁ as well; Eq. (A.11), and with it Eq. (18), takes α₁ = 0."""
    random = np.random.default_rng(2)
    D, d, q, λ = 12, 4, 6, 0.4
    V = np.linalg.qr(random.normal(size=(D, d)))[0]
    g = V @ random.normal(size=d) + 0.3 * random.normal(size=D)
    g /= np.linalg.norm(g)
    v = g + 0.2 * random.normal(size=D)
    v /= np.linalg.norm(v)
    α, α1, A2 = v @ g, v @ V @ V.T @ g, ((V.T @ g) ** 2).sum()
    C = λ * np.outer(v, v) + (1 - λ) / d * V @ V.T
    first = λ * α**2 + (1 - λ) / d * A2
    second = λ**2 * α**2 + ((1 - λ) / d) ** 2 * A2 + 2 * λ * (1 - λ) / d * α * α1
    explained = 1 - theory.rgf_loss(g, C, q)
    assert explained == pytest.approx(first**2 / ((1 - 1 / q) * second + first / q), abs=1e-12)
    assert theory.objective_subspace(λ, α**2, A2, d, q) > explained + 0.05


def test_rgf_loss_of_directions_that_miss_the_gradient() -> None:
    assert theory.rgf_loss(np.array([3.0, 0.0]), np.diag([0.0, 1.0]), 5) == pytest.approx(9)
    assert theory.rgf_loss(np.array([3.0, 0.0]), np.diag([1.0, 0.0]), 5) == pytest.approx(0)


def geometry(random: np.random.Generator) -> tuple[float, float, float, float, int, int]:
    """α, α₁, A², E[β], D and q of a real prior, gradient and subspace, so that they fit together."""
    D, q = int(random.integers(3, 40)), int(random.integers(1, 20))
    d = int(random.integers(1, D))
    V = np.linalg.qr(random.normal(size=(D, d)))[0]
    g = random.normal(size=D) + random.choice([0, 3, -0.9]) * V @ V.T @ random.normal(size=D)
    g /= np.linalg.norm(g)
    v = random.normal(size=D) + random.choice([0, 1, 5]) * g + random.choice([0, 2]) * V @ (V.T @ g)
    v *= np.sign(v @ g) / np.linalg.norm(v)
    A2 = float(((V.T @ g) ** 2).sum())
    α1 = float(v @ V @ (V.T @ g))
    return float(v @ g), α1, A2, theory.expected_cosine_subspace(A2, d, q), D, q


def test_mu_star_is_the_grid_optimum() -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        α, _, _, _, D, q = geometry(random)
        β = theory.expected_cosine(D, q)
        assert_optimal(
            theory.mu_star(α, β),
            lambda μ, α=α, β=β: -theory.averaging_loss(μ, α, β),  # type: ignore[misc]
        )


def test_mu_star_subspace_is_the_grid_optimum_also_where_equation_b7_leaves_the_interval() -> None:
    random = np.random.default_rng(4)
    seen = {"zero": 0, "between": 0, "one": 0}
    for _ in range(400):
        α, α1, A2, β, _, _ = geometry(random)
        μ = theory.mu_star_subspace(α, α1, A2, β)
        seen[regime(μ)] += 1
        printed = (A2 * α - α1 * β**2) / ((A2 - α1 * β) * (α + β))  # Eq. (B.7)
        assert μ == pytest.approx(min(max(printed, 0.0), 1.0), abs=1e-9)
        assert_optimal(
            μ,
            lambda μ, α=α, α1=α1, A2=A2, β=β: -theory.averaging_loss_subspace(μ, α, α1, A2, β),  # type: ignore[misc]
        )
    assert seen["between"] >= 200, seen
    assert seen["one"] >= 10, seen


@law
@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_mu_star_is_equation_b4_and_its_odds_are_those_of_the_approximation(α: float, β: float) -> None:
    μ, approximate = theory.mu_star(α, β), theory.mu_star_approximate(α, β)
    assert μ == pytest.approx(α * (1 - β**2) / ((1 - α**2) * β + α * (1 - β**2)), rel=1e-9)
    odds, approximate_odds = μ / (1 - μ), approximate / (1 - approximate)
    assert odds == pytest.approx(approximate_odds * (1 - β**2) / (1 - α**2), rel=1e-6)
    assert approximate == pytest.approx(α / (α + β))


@law
@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(0, 1), st.floats(0, 1))
def test_mu_stars_stay_inside_the_unit_interval(α: float, α1: float, A2: float, β: float) -> None:
    assert 0 <= theory.mu_star(α, β) <= 1
    assert 0 <= theory.mu_star_subspace(α, α1, A2, β) <= 1
    assert 0 <= theory.mu_star_approximate(α, β) <= 1


@law
@given(shares, shares, shares)
def test_averaging_in_the_whole_space_is_averaging(μ: float, α: float, β: float) -> None:
    """With V a basis of the whole space A² = 1 and α₁ = α, and Theorem 3 is Theorem 2."""
    assert theory.averaging_loss_subspace(μ, α, α, 1, β) == theory.averaging_loss(μ, α, β)


def test_averaging_at_its_ends_and_degenerate_inputs() -> None:
    assert theory.averaging_loss(1, 0.6, 0.2) == pytest.approx(1 - 0.36)
    assert theory.averaging_loss(0, 0.6, 0.2) == pytest.approx(1 - 0.04)
    assert theory.averaging_loss(1, -0.6, 0.2) == 1
    assert theory.averaging_loss_subspace(0.5, 0.6, 0, 0, 0) == pytest.approx(1 - 0.09 / 0.5)
    assert theory.mu_star(1, 1) == theory.mu_star(1.3, 0.5) == theory.mu_star(0.1, 0) == 1
    assert theory.mu_star(0, 0.3) == theory.mu_star(0, 0) == theory.mu_star(-0.5, 0.3) == 0
    assert theory.mu_star_subspace(0.4, 0, 0, 0) == 1
    assert theory.mu_star_subspace(0, 0, 0, 0) == 0
    assert theory.mu_star_approximate(0, 0) == theory.mu_star_approximate(-1, 0.5) == 0


def test_the_threshold_is_the_root_of_two_less_one() -> None:
    assert pytest.approx(math.sqrt(2) - 1) == theory.THRESHOLD_C


@law
@given(st.integers(1, 200_000), st.integers(1, 1000), shares)
def test_expected_cosine_is_the_root_of_the_objective_without_a_prior(D: int, q: int, A2: float) -> None:
    """E[β]² is F(1/D) of Eq. (A.7), whatever α is, and F(0) of Eq. (A.11)."""
    if D > 1:
        F = theory.objective(1 / D, 0.37, D, q)
        assert theory.expected_cosine(D, q) ** 2 == pytest.approx(F, rel=1e-9)
    F = theory.objective_subspace(0, 0.37, A2, D, q)
    assert theory.expected_cosine_subspace(A2, D, q) ** 2 == pytest.approx(F, rel=1e-9)


def test_gradient_norm_and_a_square_by_hand() -> None:
    slopes = torch.tensor([3.0, 4.0])
    assert theory.gradient_norm(slopes, 8) == pytest.approx(10)  # √(8/2·25)
    assert theory.a_square(slopes, 4, 10) == pytest.approx(0.5)  # 4/2·25/100
    assert theory.a_square(slopes, 40, 10) == 1
    assert theory.a_square(slopes, 4, 0) == 1
    assert theory.a_square(torch.zeros(3), 4, 0) == 0
    assert math.isnan(theory.a_square(torch.tensor([math.nan]), 4, 1))
    assert theory.gradient_norm(torch.tensor([1e30, -1e30]), 4) == pytest.approx(2e30)


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.lambda_star(0.1, 0, 5),
        lambda: theory.lambda_star(0.1, 10, 0),
        lambda: theory.lambda_star(math.nan, 10, 5),
        lambda: theory.lambda_star(-0.1, 10, 5),
        lambda: theory.lambda_star_subspace(0.1, math.nan, 10, 5),
        lambda: theory.objective(0.1, 0.1, 1, 5),
        lambda: theory.rgf_loss(np.ones(2), np.eye(2) / 2, 0),
        lambda: theory.gradient_norm(torch.ones(0), 5),
        lambda: theory.gradient_norm(torch.ones(2, 2), 5),
        lambda: theory.a_square(torch.ones(2), 0, 1.0),
    ],
)
def test_errors_say_what_was_got_and_expected(call: Callable[[], float]) -> None:
    with pytest.raises(ValueError, match=r"got .*expected|must .*got"):
        call()


@law
@given(shares, st.floats(1e-3, 1), st.integers(50, 5000), st.integers(2, 50))
def test_the_earlier_code_differs_from_eq_18_only_where_that_says_0_or_1(α2: float, A2: float, d: int, q: int) -> None:
    D = 20 * d
    fixed, before = theory.lambda_star_subspace(α2, A2, d, q), theory.lambda_star_before_fix(α2, A2, d, q, D)
    assert 0 <= before <= 1
    if 1e-6 < fixed < 1 - 1e-6 and α2 < 1:
        assert before == pytest.approx(fixed, abs=1e-6)
