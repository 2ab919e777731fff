"""The 8-bit grid: rounding towards an original, and attacks that never leave it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import dowse
from dowse.attacks.registry import METHODS
from dowse.errors import InputError
from dowse.maths.geometry import L2, Linf, contains, make_ball
from dowse.maths.grid import GridBall, on_grid, pixels, snapped, towards
from tests.support import Tanh, pictures

DTYPES = st.sampled_from([torch.float32, torch.float64])
TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)


class OnGridOnly(nn.Module):
    """A target that takes nothing but 8-bit images."""

    def forward(self, x: Tensor) -> Tensor:
        assert torch.equal(snapped(x), x), "a row off the grid was sent"
        return TARGET(x)


@given(dtype=DTYPES)
def test_every_level_survives(dtype: torch.dtype) -> None:
    levels = torch.arange(256, dtype=torch.uint8)
    x = pixels(levels, torch.zeros(1, dtype=dtype))
    assert torch.equal(on_grid(x), levels)
    assert torch.equal(towards(x, torch.zeros_like(x)), levels)
    assert torch.equal(towards(x, torch.ones_like(x)), levels)


@given(seed=st.integers(0, 10**6), dtype=DTYPES, far=st.floats(1e-6, 0.3))
def test_rounding_towards_the_original_never_moves_away_from_it(seed: int, dtype: torch.dtype, far: float) -> None:
    rng = torch.Generator().manual_seed(seed)
    x0 = snapped(torch.rand(3, 5, 5, generator=rng, dtype=dtype))
    x = (x0 + far * torch.randn(3, 5, 5, generator=rng, dtype=dtype)).clamp(0, 1)
    rounded = pixels(towards(x, x0), x)
    assert (rounded - x0).abs().le((x - x0).abs() + 1e-5).all()
    assert (rounded - x).abs().max() <= 1 / 255 + 1e-6
    for norm in ("l2", "linf"):
        ball = GridBall(make_ball(norm, 0.05, x0.numel()))
        inside = ball.project(x, x0)
        assert torch.equal(snapped(inside), inside)
        assert bool(contains(ball, inside.unsqueeze(0), x0))
        assert torch.equal(ball.project(inside, x0), inside)


@given(levels=st.integers(1, 40), dtype=DTYPES)
def test_a_radius_of_whole_levels_is_used_up_to_its_edge(levels: int, dtype: torch.dtype) -> None:
    x0 = pixels(torch.full((1, 2, 2), 100, dtype=torch.uint8), torch.zeros(1, dtype=dtype))
    ball = GridBall(Linf(levels / 255))
    edge = ball.project(x0 + 1, x0)
    assert torch.equal(on_grid(edge), on_grid(x0) + levels)
    assert float(ball.distance(edge.unsqueeze(0), x0)) == levels / 255


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.whitebox])
def test_no_method_leaves_the_grid(method: str, norm: str) -> None:
    if norm not in METHODS[method].norms:
        pytest.skip(f"{method} is not defined for {norm}")
    x = snapped(pictures(3, seed=4))
    eps = 0.4 if norm == "l2" else 12 / 255
    result = dowse.attack(
        OnGridOnly().eval(), x, method=method, surrogate=SURROGATE, norm=norm, eps=eps, budget=80, quantize=True
    )
    assert torch.equal(snapped(result.adversarial), result.adversarial)
    ball = (L2 if norm == "l2" else Linf)(eps + 1e-9)
    for original, outcome in zip(x, result.outcomes, strict=True):
        assert bool(contains(ball, outcome.adversarial.unsqueeze(0), original))


def test_probes_see_something_from_the_first() -> None:
    x = snapped(pictures(6, seed=4))
    fine, coarse = (
        dowse.attack(TARGET, x, method="rgf", q=10, eps=0.5, budget=400, quantize=quantize)
        for quantize in (False, True)
    )
    assert coarse.summary().successes >= 0.8 * fine.summary().successes
    assert coarse.summary().mean_queries_budget <= 2 * fine.summary().mean_queries_budget


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_ball_in_which_no_pixel_can_move_is_refused(norm: str) -> None:
    x = snapped(pictures(1))
    with pytest.raises(InputError, match="less than a level of 8 bits"):
        dowse.attack(TARGET, x, method="square", norm=norm, eps=0.0039, quantize=True)
    dowse.attack(TARGET, x, method="square", norm=norm, eps=1 / 255, quantize=True, budget=2)


def test_an_image_off_the_grid_is_refused() -> None:
    with pytest.raises(InputError, match=r"off the grid of k/255 by .*round it first"):
        dowse.attack(TARGET, pictures(1), method="rgf", quantize=True)
