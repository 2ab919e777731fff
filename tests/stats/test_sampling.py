"""The samplers' second moments against Eqs. (10) and (17), entry by entry, and their uniformity on the
sphere."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from dowse.maths.sampling import biased, sphere, unit
from dowse.maths.subspace import Subspace

SAMPLES = 100_000
LEVEL = 2 * float(stats.norm.sf(4))  # the chance that one |z| reaches 4
SIDES = [(1, 7, 7, 3, 3), (1, 7, 5, 3, 2), (2, 5, 4, 2, 3)]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def columns(subspace: Subspace) -> Tensor:
    """V (D, d)."""
    identity = torch.eye(subspace.d, dtype=torch.float64)
    return subspace.up(identity.view(-1, subspace.C, subspace.h, subspace.w)).flatten(1).T


def turned(V: Tensor, v: Tensor) -> Tensor:
    """V' = [v₁', v₂, …, v_d] of Appendix A.6, from a basis of the subspace that starts with v₁, by QR."""
    v1 = unit(V @ (V.T @ v))
    basis = V @ torch.linalg.qr(torch.column_stack([V.T @ v1, torch.eye(V.shape[1]).double()]))[0]
    v1_turned = unit(v1 - (v @ v1) * v)
    return torch.column_stack([v1_turned, basis[:, 1:]])


def worst_z(u: Tensor, C: Tensor) -> tuple[float, float]:
    """The largest |z| of the entries of the mean of uuᵀ against C, and the bound it has to stay below.

    The bound is Bonferroni's for the D(D+1)/2 entries: it is reached as seldom as one |z| reaches 4. Entries that
    cannot vary must be exact.
    """
    n, D = u.shape
    mean = u.T @ u / n
    variance = (u.square().T @ u.square() / n - mean.square()).clamp(min=0)
    i, j = torch.triu_indices(D, D)
    gap, error = (mean - C)[i, j].abs(), (variance[i, j] / n).sqrt()
    fixed = error < 1e-12
    assert bool((gap[fixed] < 1e-12).all())
    return float((gap[~fixed] / error[~fixed]).max()), float(stats.norm.isf(LEVEL / 2 / len(i)))


def assert_second_moment(u: Tensor, C: Tensor) -> None:
    z, bound = worst_z(u.flatten(1), C)
    assert z < bound


def assert_uniform(coordinates: Tensor) -> None:
    """Rows (n, k) are uniform on the unit sphere of R^k: the square of a coordinate is Beta(1/2, (k−1)/2).

    The coordinate is taken along a direction that no sampler knows of; its sign is fair.
    """
    n, k = coordinates.shape
    direction = unit(torch.randn(k, generator=generator(99), dtype=torch.float64))
    x = coordinates @ direction
    p = stats.kstest(x.square().numpy(), stats.beta(0.5, (k - 1) / 2).cdf).pvalue
    assert p > LEVEL
    assert abs(float((x > 0).sum()) - n / 2) < 4 * math.sqrt(n) / 2


def test_sphere_is_uniform() -> None:
    u = sphere(SAMPLES, torch.zeros(2, 4, dtype=torch.float64), generator(0))
    assert_second_moment(u, torch.eye(8).double() / 8)
    assert_uniform(u.flatten(1))


@pytest.mark.parametrize("D", [2, 3, 9])
@pytest.mark.parametrize("λ", [0.0, 0.02, 0.3, 0.9, 1.0])
def test_biased_has_the_second_moment_of_equation_10(D: int, λ: float) -> None:
    rng = generator(1)
    v = unit(torch.randn(D, generator=rng, dtype=torch.float64))
    u = biased(v, λ, sphere(SAMPLES, v, rng))
    outer = torch.outer(v, v)
    assert_second_moment(u, λ * outer + (1 - λ) / (D - 1) * (torch.eye(D).double() - outer))  # Eq. (10)


def test_the_second_moment_test_can_fail() -> None:
    """A bias of 0.31 for 0.3 is found out, and so is a residue that was not normalised."""
    rng = generator(2)
    v = unit(torch.randn(6, generator=rng, dtype=torch.float64))
    outer = torch.outer(v, v)
    C = 0.3 * outer + 0.7 / 5 * (torch.eye(6).double() - outer)
    z, bound = worst_z(biased(v, 0.31, sphere(SAMPLES, v, rng)), C)
    assert z > 2 * bound
    ξ = sphere(SAMPLES, v, rng)
    without_normalising = math.sqrt(0.3) * v + math.sqrt(0.7) * (ξ - (ξ @ v)[:, None] * v)
    z, bound = worst_z(without_normalising, C)
    assert z > 2 * bound


@pytest.mark.parametrize("sizes", SIDES)
def test_subspace_sphere_is_uniform_in_the_subspace(sizes: tuple[int, int, int, int, int]) -> None:
    subspace = Subspace(*sizes)
    V = columns(subspace)
    u = subspace.sphere(SAMPLES, torch.zeros(sizes[:3], dtype=torch.float64), generator(3))
    assert_second_moment(u, V @ V.T / subspace.d)
    assert_uniform(u.flatten(1) @ V)


def test_equal_weights_for_unequal_blocks_would_be_found_out() -> None:
    """Up-sampling 3 in 7 without a weight for each column, then normalising, is another distribution."""
    subspace = Subspace(1, 7, 7, 3, 3)
    V = columns(subspace)
    ξ = sphere(SAMPLES, torch.zeros(9, dtype=torch.float64), generator(4))
    z, bound = worst_z(unit(ξ @ V.sign().T, batched=True), V @ V.T / 9)
    assert z > 2 * bound


@pytest.mark.parametrize("sizes", SIDES)
@pytest.mark.parametrize("λ", [0.0, 0.2])
def test_the_sampler_of_appendix_a6_is_equation_17_on_its_own_subspace(
    sizes: tuple[int, int, int, int, int], λ: float
) -> None:
    subspace, rng = Subspace(*sizes), generator(5)
    v = unit(torch.randn(sizes[:3], generator=rng, dtype=torch.float64))
    flat = v.flatten()
    basis = turned(columns(subspace), flat)
    torch.testing.assert_close(basis.T @ basis, torch.eye(subspace.d).double(), rtol=0, atol=1e-12)
    r = subspace.sphere_orthogonal(SAMPLES, v, rng)
    assert (r.flatten(1) @ flat).abs().max() < 1e-14
    assert_uniform(r.flatten(1) @ basis)
    u = biased(v, λ, r)
    C = λ * torch.outer(flat, flat) + (1 - λ) / subspace.d * basis @ basis.T  # Eq. (17), V' for V
    assert_second_moment(u, C)


def test_the_sampler_of_appendix_a6_where_v_is_orthogonal_to_the_subspace() -> None:
    subspace, rng = Subspace(1, 7, 5, 3, 2), generator(6)
    V = columns(subspace)
    x = torch.randn(35, generator=rng, dtype=torch.float64)
    v = unit(x - V @ (V.T @ x)).view(1, 7, 5)
    u = subspace.sphere_orthogonal(SAMPLES, v, rng)
    assert_second_moment(u, V @ V.T / 6)


def test_the_sampler_of_appendix_a6_where_v_lies_in_the_subspace() -> None:
    subspace, rng = Subspace(1, 7, 5, 3, 2), generator(7)
    V = columns(subspace)
    v = unit(V @ torch.randn(6, generator=rng, dtype=torch.float64))
    u = subspace.sphere_orthogonal(SAMPLES, v.view(1, 7, 5), rng)
    assert_second_moment(u, (V @ V.T - torch.outer(v, v)) / 5)


@pytest.mark.parametrize("inside", [0.0, 0.5, 0.9, 1.0])
def test_equation_19_has_the_second_moment_that_appendix_a6_describes(inside: float) -> None:
    """E[rrᵀ] = λ₁·v₁'v₁'ᵀ + (1−λ₁)/(d−1)·Σ vᵢvᵢᵀ with λ₁ in [0, 1/d], which the paper rounds to Eq. (17).

    With ‖VVᵀv‖ = inside, s² = 1 − inside², and B the square of a coordinate of ξ, λ₁ = E[s²B/(s²B + 1 − B)].
    """
    subspace, rng, λ, d = Subspace(1, 7, 5, 3, 2), generator(8), 0.2, 6
    V = columns(subspace)
    x = torch.randn(35, generator=rng, dtype=torch.float64)
    within = unit(V @ (V.T @ x))
    v = inside * within + math.sqrt(1 - inside**2) * unit(x - V @ (V.T @ x))
    s2 = 1 - inside**2
    B = stats.beta(0.5, (d - 1) / 2)
    share = integrate.quad(lambda b: s2 * b / (s2 * b + 1 - b) * B.pdf(b), 0, 1)[0]  # λ₁
    assert 0 <= share <= 1 / d + 1e-9
    others = V @ V.T - torch.outer(within, within)
    v1_turned = unit(within - (v @ within) * v) if inside < 1 else torch.zeros_like(v)
    residue = share * torch.outer(v1_turned, v1_turned) + (1 - share) / (d - 1) * others
    u = biased(v.view(1, 7, 5), λ, subspace.sphere(SAMPLES, v.view(1, 7, 5), rng))
    assert_second_moment(u, λ * torch.outer(v, v) + (1 - λ) * residue)
