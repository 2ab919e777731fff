"""What holds of the subspace: V's orthonormal columns, blocks and their means, samples inside it and beside a prior."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dowse.maths.sampling import unit
from dowse.maths.subspace import Subspace
from tests.laws.test_sampling import dtypes, generator, law, lengths, rounding, seeds

sides = st.integers(1, 12)


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
@given(st.integers(1, 3), sides, sides, st.data(), seeds)
def test_blocks_are_filled_alike_and_their_mean_is_what_filled_them(
    C: int, H: int, W: int, data: st.DataObject, seed: int
) -> None:
    subspace = Subspace(C, H, W, data.draw(st.integers(1, H)), data.draw(st.integers(1, W)))
    small = torch.randn(2, *subspace.small, generator=generator(seed), dtype=torch.float64)
    large = torch.randn(2, C, H, W, generator=generator(seed), dtype=torch.float64)
    repeated = subspace.repeat(small).flatten(1)
    torch.testing.assert_close(repeated, small.flatten(1) @ columns(subspace).sign().T, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(subspace.block_mean(subspace.repeat(small)), small)
    sizes = columns(subspace).sign().sum(0)
    means = large.flatten(1) @ columns(subspace).sign() / sizes
    torch.testing.assert_close(subspace.block_mean(large).flatten(1), means)


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
