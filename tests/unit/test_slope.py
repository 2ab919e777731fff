"""A slope learnt from differences: least squares one answer at a time, and the pixels that promise most."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dowse.maths.slope import RIDGE, Slope, Waves, clearest

SHAPE = (3, 9, 10)


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(3, 9, 10), (1, 4, 4), (3, 40, 30), (4, 1, 7)])
def test_synthesis_is_the_adjoint_of_analysis(shape):
    waves = Waves.of(*shape)
    w, δ = rand(len(waves), seed=1), rand(*shape, seed=2)
    assert torch.allclose(w @ waves.analyse(δ), (waves.synthesise(w) * δ).sum())


@given(st.integers(0, 1000), st.integers(1, 12))
def test_one_answer_at_a_time_is_ridge_regression_on_all(seed, n):
    steps, rises = rand(n, *SHAPE, seed=seed), rand(n, seed=seed + 1)
    slope = Slope.unknown(steps[0])
    for δ, rise in zip(steps, rises, strict=True):
        slope = slope.after(δ, float(rise))
    H = torch.stack([slope.waves.analyse(δ) for δ in steps])
    noise = RIDGE * H.square().sum(1)
    precision = torch.eye(H.shape[1], dtype=torch.float64) + H.T @ (H / noise[:, None])
    assert torch.allclose(slope.mean, torch.linalg.solve(precision, H.T @ (rises / noise)), atol=1e-9)
    assert torch.allclose(slope.covariance, precision.inverse(), atol=1e-8)


def test_what_is_no_step_or_no_number_teaches_nothing():
    slope = Slope.unknown(torch.zeros(SHAPE))
    assert slope.after(torch.zeros(SHAPE), 1.0) is slope
    assert slope.after(torch.ones(SHAPE), float("nan")) is slope


def test_the_slope_of_a_linear_function_is_found():
    true = Waves.of(*SHAPE).synthesise(rand(len(Waves.of(*SHAPE)), seed=5))
    slope = Slope.unknown(true)
    for i in range(200):
        δ = rand(*SHAPE, seed=100 + i).sign()
        slope = slope.after(δ, float((true * δ).sum()))
    found = slope.image()
    assert float((found * true).sum() / found.norm() / true.norm()) > 0.8


@given(st.integers(0, 1000), st.floats(0.01, 1.0))
def test_the_clearest_pixels_gain_most_and_go_to_the_balls_side(seed, share):
    g, x0 = rand(*SHAPE, seed=seed), rand(*SHAPE, seed=seed + 1)
    x = x0 + 0.1 * rand(*SHAPE, seed=seed + 2).sign()
    z = clearest(g, x, x0, 0.1, share)
    moved = (z - x).abs() > 1e-12
    assert torch.allclose(z[moved], (x0 + 0.1 * g.sign())[moved])
    promise = (x0 + 0.1 * g.sign() - x) * g
    assert moved.sum() == max(1, int(share * int((promise > 1e-15).sum())))
    assert promise[moved].min() >= promise[~moved].max()


def test_where_nothing_promises_a_gain_nothing_moves():
    x0 = torch.zeros(4)
    x = torch.tensor([1.0, -1.0, 1.0, 0.3])
    g = torch.tensor([1.0, -1.0, 1.0, 0.0])
    assert clearest(g, x, x0, 1.0, 1.0) is x
