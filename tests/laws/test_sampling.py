"""What holds of every sample: lengths, angles, V's orthonormal columns, and the cases where a direction vanishes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dowse.maths.sampling import Subspace, biased, sphere, unit

law = settings(deadline=None, max_examples=150, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from([torch.float32, torch.float64])
shapes = st.sampled_from([(2,), (3,), (40,), (2, 3), (3, 5, 4)])
sides = st.integers(1, 12)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lengths(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows.flatten(1).double(), dim=1)


def rounding(dtype: torch.dtype) -> float:
    """A few units in the last place; the vectors here have a few hundred elements at most."""
    return 32 * torch.finfo(dtype).eps


def columns(subspace: Subspace) -> Tensor:
    """V (D, d) from its definition: up-sampled basis images, each brought to length one; plain loops over integers."""
    C, H, W, h, w = subspace.C, subspace.H, subspace.W, subspace.h, subspace.w
    V = torch.zeros(C, H, W, C, h, w, dtype=torch.float64)
    for c in range(C):
        for i in range(H):
            for j in range(W):
                V[c, i, j, c, (i * h) // H, (j * w) // W] = 1
    V = V.view(C * H * W, C * h * w)
    return V / torch.linalg.vector_norm(V, dim=0)


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


@law
@given(st.integers(1, 3), sides, sides, st.data())
def test_the_columns_are_orthonormal_and_as_defined(C: int, H: int, W: int, data: st.DataObject) -> None:
    h, w = data.draw(st.integers(1, H)), data.draw(st.integers(1, W))
    subspace = Subspace.of((h, w), (C, H, W))
    assert subspace is not None
    assert subspace.d == C * h * w
    assert (subspace.h, subspace.w) == (h, w)
    V = subspace.up(torch.eye(subspace.d, dtype=torch.float64).view(-1, C, h, w)).flatten(1).T
    torch.testing.assert_close(V, columns(subspace), rtol=1e-14, atol=0)
    torch.testing.assert_close(V.T @ V, torch.eye(subspace.d).double(), rtol=0, atol=1e-14)
    Vt = subspace.down(torch.eye(C * H * W, dtype=torch.float64).view(-1, C, H, W)).flatten(1)
    torch.testing.assert_close(Vt, V, rtol=1e-14, atol=0)


@law
@given(st.integers(1, 300), st.data())
def test_up_takes_the_exact_neighbour(H: int, data: st.DataObject) -> None:
    h = data.draw(st.integers(1, H))
    subspace = Subspace.of((h, 1), (1, H, 1))
    assert subspace is not None
    image = subspace.up(torch.arange(1.0, h + 1, dtype=torch.float64).view(1, 1, h, 1)).flatten()
    blocks = [(i * h) // H for i in range(H)]
    expected = [(b + 1) / math.sqrt(blocks.count(b)) for b in blocks]
    torch.testing.assert_close(image, torch.tensor(expected, dtype=torch.float64), rtol=1e-14, atol=0)


def test_blocks_of_four_and_five_pixels_have_their_own_weights() -> None:
    subspace = Subspace.of(50, (3, 224, 224))
    assert subspace is not None
    image = subspace.up(torch.ones(1, 3, 50, 50, dtype=torch.float64))[0, 0]
    expected = torch.tensor([4 * 4, 4 * 5, 5 * 5]).double().rsqrt().flip(0)
    torch.testing.assert_close(image.round(decimals=12).unique(), expected.round(decimals=12))


def test_a_full_subspace_is_the_identity_and_no_alias() -> None:
    subspace = Subspace.of((4, 5), (2, 4, 5))
    assert subspace is not None
    ξ = torch.randn(3, 2, 4, 5, generator=generator(0))
    image = subspace.up(ξ)
    assert torch.equal(image, ξ)
    assert image.data_ptr() != ξ.data_ptr()
    assert Subspace.of(None, (2, 4, 5)) is None
    assert Subspace.of(None, (7,)) is None
    assert Subspace.of((4, 5), (2, 4, 5)) is subspace


@law
@given(seeds, dtypes, st.sampled_from([(1, 7, 7, 3, 3), (3, 7, 5, 3, 2), (2, 8, 8, 4, 4)]))
def test_subspace_sphere_has_length_one_and_lies_in_the_subspace(
    seed: int, dtype: torch.dtype, sizes: tuple[int, int, int, int, int]
) -> None:
    subspace = Subspace(*sizes)
    like = torch.zeros(sizes[:3], dtype=dtype)
    u = subspace.sphere(5, like, generator(seed))
    assert u.dtype == dtype
    assert u.shape == (5, *sizes[:3])
    torch.testing.assert_close(lengths(u), torch.ones(5).double(), rtol=0, atol=rounding(dtype))
    torch.testing.assert_close(subspace.up(subspace.down(u)), u, rtol=0, atol=rounding(dtype))
    assert torch.equal(u, subspace.sphere(5, like, generator(seed)))


@law
@given(seeds, dtypes, st.sampled_from([(1, 7, 7, 3, 3), (3, 7, 5, 3, 2)]), st.floats(-18, 1), st.booleans())
def test_sphere_orthogonal_is_orthogonal_however_v_lies_to_the_subspace(
    seed: int, dtype: torch.dtype, sizes: tuple[int, int, int, int, int], exponent: float, inside: bool
) -> None:
    """v is (a vector inside) + 10^exponent·(one outside), or the reverse, so that every tolerance is crossed."""
    subspace, rng = Subspace(*sizes), generator(seed)
    x, y = torch.randn(2, *sizes[:3], generator=rng, dtype=torch.float64)
    within = subspace.up(subspace.down(x[None]))[0]
    without = y - subspace.up(subspace.down(y[None]))[0]
    near, far = (within, without) if inside else (without, within)
    v = unit(near + 10.0**exponent * far).to(dtype)
    u = subspace.sphere_orthogonal(6, v, rng)
    assert u.shape == (6, *sizes[:3])
    assert u.dtype == dtype
    torch.testing.assert_close(lengths(u), torch.ones(6).double(), rtol=0, atol=rounding(dtype))
    assert (u.double().flatten(1) @ v.double().flatten()).abs().max() < rounding(dtype)
    # Inside span{v₁, …, v_d, v}: nothing is left of u when both are taken away.
    rest = u.double() - subspace.up(subspace.down(u.double()))
    outside = v.double() - subspace.up(subspace.down(v.double()[None]))[0]
    if (length := float(torch.linalg.vector_norm(outside))) > 2 * math.sqrt(torch.finfo(dtype).eps):
        along = rest.flatten(1) @ unit(outside).flatten()
        rest = rest.flatten(1) - along[:, None] * unit(outside).flatten()
        assert rest.abs().max() < rounding(dtype) / length  # v's own rounding tells its outside no better


def test_sphere_orthogonal_without_a_prior_is_the_plain_sphere() -> None:
    subspace = Subspace(2, 7, 5, 3, 2)
    zero = torch.zeros(2, 7, 5)
    plain = subspace.sphere(4, zero, generator(3))
    assert torch.equal(subspace.sphere_orthogonal(4, zero, generator(3)), plain)


def test_sphere_orthogonal_to_a_prior_that_has_no_part_in_the_subspace_is_the_plain_sphere() -> None:
    """A chessboard sums to exactly zero in every block of 2x2, so that there is no v₁ to turn."""
    subspace = Subspace(1, 4, 4, 2, 2)
    rows, columns = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
    chessboard = (1.0 - 2 * ((rows + columns) % 2))[None] / 4
    plain = subspace.sphere(4, chessboard, generator(3))
    assert torch.equal(subspace.sphere_orthogonal(4, chessboard, generator(3)), plain)


def test_sphere_orthogonal_of_a_line_that_is_the_prior_is_zero() -> None:
    subspace = Subspace(1, 4, 4, 1, 1)
    u = subspace.sphere_orthogonal(3, torch.full((1, 4, 4), 0.25), generator(0))
    assert torch.equal(u, torch.zeros(3, 1, 4, 4))


@pytest.mark.parametrize("subspace", [0, -1, 225, (50, 0), (225, 50), (50, 300)])
def test_sides_beyond_the_image_are_refused(subspace: int | tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"got subspace = .*224x224; choose smaller sides, or subspace=None"):
        Subspace.of(subspace, (3, 224, 224))


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got inputs of shape \(784,\), expected images \(C, H, W\)"):
        Subspace.of(5, (784,))
    subspace = Subspace(3, 8, 8, 2, 2)
    for call in (subspace.up, subspace.down):
        with pytest.raises(ValueError, match=r"got shape \(3, 8, 7\), expected"):
            call(torch.zeros(3, 8, 7))
    with pytest.raises(ValueError, match=r"got a tensor of shape \(1, 8, 8\), expected \(3, 8, 8\)"):
        subspace.sphere(2, torch.zeros(1, 8, 8), generator(0))
    with pytest.raises(ValueError, match=r"unit\(v\)"):
        subspace.sphere_orthogonal(2, torch.ones(3, 8, 8), generator(0))
