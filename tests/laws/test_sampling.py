"""What holds of every sample: lengths, angles, and the cases where a direction vanishes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dowse.maths.sampling import biased, sphere, unit

law = settings(deadline=None, max_examples=150, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from([torch.float32, torch.float64])
shapes = st.sampled_from([(2,), (3,), (40,), (2, 3), (3, 5, 4)])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lengths(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows.flatten(1).double(), dim=1)


def rounding(dtype: torch.dtype) -> float:
    """A few units in the last place; the vectors here have a few hundred elements at most."""
    return 32 * torch.finfo(dtype).eps


@law
@given(seeds, shapes, dtypes, st.floats(-300, 300))
def test_unit_has_length_one_at_any_scale(
    seed: int, shape: tuple[int, ...], dtype: torch.dtype, exponent: float
) -> None:
    largest = 30 if dtype is torch.float32 else 300
    scale = 10.0 ** max(-largest, min(largest, exponent))
    direction = torch.randn(4, *shape, generator=generator(seed), dtype=torch.float64)
    x = (direction * scale).to(dtype)
    rows = unit(x, batched=True)
    assert rows.shape == x.shape
    assert rows.dtype == dtype
    torch.testing.assert_close(lengths(rows), torch.ones(4).double(), rtol=0, atol=rounding(dtype))
    torch.testing.assert_close(rows[1], unit(x[1]), rtol=rounding(dtype), atol=0)
    cosine = (rows.double() * direction).flatten(1).sum(1) / lengths(direction)
    torch.testing.assert_close(cosine, torch.ones(4).double(), rtol=0, atol=rounding(dtype))


def test_unit_leaves_zero_and_the_argument_alone() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3e-30, 4e-30]])
    before = x.clone()
    torch.testing.assert_close(unit(x, batched=True), torch.tensor([[0.0, 0.0], [0.6, 0.8], [0.6, 0.8]]))
    assert torch.equal(x, before)
    assert torch.equal(unit(torch.zeros(3)), torch.zeros(3))
    assert unit(torch.zeros(0, 3), batched=True).shape == (0, 3)
    assert unit(torch.tensor(-2.0)) == -1


@law
@given(seeds, st.integers(0, 5), shapes, dtypes)
def test_sphere_has_length_one_and_follows_its_seed(
    seed: int, n: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    like = torch.zeros(shape, dtype=dtype)
    u = sphere(n, like, generator(seed))
    assert u.shape == (n, *shape)
    assert u.dtype == dtype
    torch.testing.assert_close(lengths(u), torch.ones(n).double(), rtol=0, atol=rounding(dtype))
    assert torch.equal(u, sphere(n, like, generator(seed)))
    rng = generator(seed)
    if n:
        assert not torch.equal(sphere(n, like, rng), sphere(n, like, rng))


@law
@given(seeds, shapes, dtypes, st.floats(0, 1))
def test_biased_has_length_one_and_the_angle_asked_for(
    seed: int, shape: tuple[int, ...], dtype: torch.dtype, λ: float
) -> None:
    rng = generator(seed)
    v = unit(torch.randn(shape, generator=rng, dtype=torch.float64)).to(dtype)
    r = sphere(6, v, rng) * torch.logspace(-3, 3, 6, dtype=dtype).view(-1, *[1] * v.ndim)
    before = r.clone().double().flatten(1)
    u = biased(v, λ, r)
    assert u.shape == (6, *shape)
    assert u.data_ptr() == r.data_ptr(), "r is consumed, not copied"
    torch.testing.assert_close(lengths(u), torch.ones(6).double(), rtol=0, atol=rounding(dtype))
    wide, rows = v.double().flatten(), u.double().flatten(1)
    torch.testing.assert_close(
        rows @ wide, torch.full((6,), math.sqrt(λ), dtype=torch.float64), rtol=0, atol=rounding(dtype)
    )
    residue = before - (before @ wide)[:, None] * wide
    # How well r's own rounding determines the direction of what is left of it beside v.
    condition = (lengths(before) / lengths(residue))[:, None]
    expected = math.sqrt(λ) * wide + math.sqrt(1 - λ) * residue / lengths(residue)[:, None]  # Eq. (11)
    assert bool(((rows - expected).abs() <= rounding(dtype) * condition).all())


@law
@given(seeds, dtypes, st.floats(-7, 0))
def test_biased_keeps_its_digits_where_r_is_nearly_parallel_to_v(
    seed: int, dtype: torch.dtype, exponent: float
) -> None:
    rng = generator(seed)
    v, w = sphere(2, torch.zeros(30, dtype=torch.float64), rng).to(dtype)
    r = (v + 10.0**exponent * w).repeat(3, 1)
    r[1] = w
    u = biased(unit(v), 0.25, r)
    assert not u.isnan().any()
    along = u.double() @ v.double()
    torch.testing.assert_close(along, torch.full((3,), 0.5).double(), rtol=0, atol=rounding(dtype))
    if 10.0**exponent > 100 * torch.finfo(dtype).eps:
        torch.testing.assert_close(lengths(u), torch.ones(3).double(), rtol=0, atol=rounding(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_biased_where_nothing_is_left_beside_the_prior(dtype: torch.dtype) -> None:
    v = unit(torch.randn(50, generator=generator(0), dtype=dtype))
    u = biased(v, 0.25, torch.stack([v, -3 * v, torch.zeros_like(v)]))
    torch.testing.assert_close(u, (0.5 * v).expand(3, -1))
    one = torch.ones(1, dtype=dtype)
    assert torch.equal(biased(one, 0.25, sphere(4, one, generator(0))), 0.5 * one.expand(4, 1))
    assert torch.equal(biased(one, 0, sphere(4, one, generator(0))), 0 * one.expand(4, 1))


def test_biased_without_a_prior_is_r_normalised() -> None:
    r = torch.randn(5, 2, 3, generator=generator(0))
    torch.testing.assert_close(biased(torch.zeros(2, 3), 0.7, r.clone()), unit(r, batched=True))


def test_biased_at_its_ends() -> None:
    v = unit(torch.randn(2, 3, generator=generator(0)))
    r = sphere(4, v, generator(1))
    torch.testing.assert_close(biased(v, 1, r.clone()), v.expand(4, 2, 3))
    assert (biased(v, 0, r.clone()).flatten(1) @ v.flatten()).abs().max() < 1e-6


def test_biased_takes_any_memory_layout() -> None:
    v = unit(torch.randn(3, 6, 4, generator=generator(0)))
    r = sphere(5, v, generator(1))
    expected = biased(v, 0.3, r.clone())
    odd_v = v.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    odd_r = r.clone(memory_format=torch.channels_last)
    torch.testing.assert_close(biased(odd_v, 0.3, odd_r), expected)


@pytest.mark.parametrize(
    ("v", "lam", "says"),
    [
        (torch.ones(4) / 2, 1.2, r"got lam = 1.2, expected .*\[0, 1\]"),
        (torch.ones(4) / 2, math.nan, r"got lam = nan"),
        (torch.ones(4), 0.5, r"length 2, expected 1 .*unit\(v\)"),
        (torch.full((4,), math.nan), 0.5, r"length nan"),
        (torch.ones(2, 2) / 2, 0.5, r"got r \(3, 4\) and v \(2, 2\)"),
    ],
)
def test_biased_refuses_with_a_remedy(v: Tensor, lam: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        biased(v, lam, torch.ones(3, 4))
