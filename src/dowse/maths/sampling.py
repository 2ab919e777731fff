"""Random directions: normal, of random signs, uniform on a sphere, and biased towards a prior.

Randomness is an argument: `rng` is a CPU generator, and numbers are drawn on the CPU in the wanted dtype
before they move to the device, so that a seed means the same on every device. Equation numbers are those of
"Improving Black-box Adversarial Attacks with a Transfer-based Prior" (NeurIPS 2019).
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

__all__ = ["biased", "gaussian", "rademacher", "sphere", "unit"]


def unit(x: Tensor, *, batched: bool = False) -> Tensor:
    """x/‖x‖; a zero vector stays zero. Right also where the squares of x leave the range of its dtype.

    >>> unit(torch.tensor([3.0, 4.0]))
    tensor([0.6000, 0.8000])
    >>> unit(torch.tensor([[0.0, 0.0], [3e-30, 4e-30]]), batched=True)
    tensor([[0.0000, 0.0000],
            [0.6000, 0.8000]])

    Args:
        x: one vector (*s); with `batched`, rows (n, *s), each brought to length one by itself.
        batched: whether the first axis counts vectors.

    Returns:
        A new tensor shaped like x.
    """
    least = _least_safe(x.dtype)
    if not batched and x.is_contiguous():
        whole = torch.linalg.vector_norm(x)
        if least < float(whole) < math.inf:  # as nearly always: one vector takes half of the steps of rows
            scaled: Tensor = x / whole
            return scaled
    n = len(x) if batched else 1
    rows = x.reshape(n, math.prod(x.shape[1:] if batched else x.shape))
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    if all(least < one < math.inf for one in length.flatten().tolist()):
        scaled = rows / length
        return scaled.reshape(x.shape)
    largest = rows.abs().amax(dim=1, keepdim=True)
    rows = rows / torch.where(largest > 0, largest, 1)
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return (rows / torch.where(length > 0, length, 1)).reshape(x.shape)


@lru_cache
def _least_safe(dtype: torch.dtype) -> float:
    """Above which length the squares of what is long in a vector are within the range of a dtype."""
    limits = torch.finfo(dtype)
    return math.sqrt(limits.tiny) / limits.eps


def is_zero(x: Tensor) -> bool:
    """Whether every number of x, (*s), is zero: as `not x.any()`, in a fraction of its time.

    >>> is_zero(torch.tensor([0.0, -0.0])), is_zero(torch.tensor([0.0, 1e-40])), is_zero(torch.tensor([math.nan]))
    (True, False, False)
    """
    least, most = x.aminmax()
    return float(least) == 0 == float(most)


def gaussian(shape: Sequence[int], like: Tensor, rng: torch.Generator) -> Tensor:
    """Independent standard normal numbers: E[uuᵀ] = I.

    >>> gaussian((2, 3), torch.zeros(1), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3])

    Args:
        shape: how many, as a shape (*s).
        like: any tensor; gives dtype and device.
        rng: a CPU generator.
    """
    return torch.randn(tuple(shape), generator=rng, dtype=like.dtype).to(like.device)


def rademacher(shape: Sequence[int], like: Tensor, rng: torch.Generator) -> Tensor:
    """Independent signs, +1 and −1 with equal chances: E[uuᵀ] = I.

    >>> rademacher((6,), torch.zeros(1), torch.Generator().manual_seed(0)).unique()
    tensor([-1.,  1.])

    Args:
        shape: how many, as a shape (*s).
        like: any tensor; gives dtype and device.
        rng: a CPU generator.
    """
    return torch.empty(tuple(shape), dtype=like.dtype).bernoulli_(0.5, generator=rng).mul_(2).sub_(1).to(like.device)


def sphere(n: int, like: Tensor, rng: torch.Generator) -> Tensor:
    """n directions ξ uniform on the unit sphere of R^D: E[ξξᵀ] = I/D.

    >>> ξ = sphere(3, torch.zeros(2, 2), torch.Generator().manual_seed(0))
    >>> ξ.shape, ξ.flatten(1).norm(dim=1).round(decimals=5)
    (torch.Size([3, 2, 2]), tensor([1., 1., 1.]))

    Args:
        n: number of directions.
        like: a tensor (*s) that gives shape, dtype and device; D is its number of elements.
        rng: a CPU generator.

    Returns:
        (n, *s), rows of length one.
    """
    ξ = torch.randn(n, like.numel(), generator=rng, dtype=like.dtype)
    return normalise_(ξ).view(n, *like.shape).to(like.device)


def biased(v: Tensor, lam: float, r: Tensor) -> Tensor:
    """Directions biased to the prior: u = √λ·v + √(1−λ)·normalised((I − vvᵀ)rᵢ), Eqs. (11) and (19).

    With r from `sphere` this is Eq. (11), and E[uuᵀ] is C of Eq. (10). With r from `Subspace.sphere` it is
    Eq. (19), and E[uuᵀ] is close to C of Eq. (17). With r from `Subspace.sphere_orthogonal` it is the
    remark of Appendix A.6, and E[uuᵀ] is C of Eq. (17) with v₁' for v₁. The length of rᵢ does not matter.
    Where nothing is left of rᵢ beside v (rᵢ parallel to v, as always when D = 1) the second term is zero,
    and u = √λ·v.

    >>> v, r = torch.tensor([1.0, 0.0]), torch.tensor([[7.0, 2.0], [1.0, -9.0]])
    >>> biased(v, 0.36, r)
    tensor([[ 0.6000,  0.8000],
            [ 0.6000, -0.8000]])

    Args:
        v: the prior (*s), of length one; or zero, which means no bias: the result is r, normalised.
        lam: the bias λ in [0, 1].
        r: (n, *s). It is consumed: its memory becomes the result's.

    Returns:
        (n, *s), rows of length one.
    """
    if not 0 <= lam <= 1:
        raise ValueError(f"got lam = {lam}, expected a number in [0, 1]; it is the λ of Eq. (11)")
    if r.shape[1:] != v.shape:
        raise ValueError(f"got r {tuple(r.shape)} and v {tuple(v.shape)}, expected (n, *s) and (*s) with equal s")
    rows, prior = r.reshape(len(r), v.numel()), v.reshape(-1)
    if not is_direction(prior):
        return normalise_(rows).view(r.shape)
    along, beside = _parts_(rows, prior)
    scale = torch.where(beside > 0, math.sqrt(1 - lam) / beside, 0)
    rows.mul_(scale[:, None]).addr_(math.sqrt(lam) - scale * along, prior)  # Eqs. (11), (19): (I − vvᵀ)r = r − (vᵀr)v
    return rows.view(r.shape)


def _parts_(rows: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """vᵀr and ‖(I − vvᵀ)r‖ of each row, (n, D) -> (n,), (n,).

    Their squares add up to ‖r‖², which tells the second from the first; but where r is nearly parallel to v too few
    digits are left of the difference, and the rows are made orthogonal to v in place.
    """
    along = rows @ v
    square = torch.linalg.vector_norm(rows, dim=1).square_()
    rest = square - along.square()
    if bool((rest < 0.5 * square).any()):
        remove_(rows, v)
        return torch.zeros_like(along), torch.linalg.vector_norm(rows, dim=1)
    return along, rest.sqrt()


def normalise_(rows: Tensor) -> Tensor:
    """Brings rows (n, D) to length one in place; a zero row stays zero."""
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows.div_(torch.where(length > 0, length, 1))


def remove_(rows: Tensor, direction: Tensor) -> Tensor:
    """Makes rows (n, D) orthogonal to a unit direction (D,) in place; what is only rounding becomes zero.

    Twice, because what one subtraction leaves of a nearly parallel row is orthogonal to a few digits only.
    """
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    for _ in range(2):
        rows.addr_(rows @ direction, direction, alpha=-1)
    left = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows.mul_(left > 16 * torch.finfo(rows.dtype).eps * length)


def is_direction(v: Tensor) -> bool:
    """Whether v has length one; False for zero, and an error for anything else."""
    length = float(torch.linalg.vector_norm(v))
    if length and not abs(length - 1) < 1e-3:
        raise ValueError(f"got a prior v of length {length:g}, expected 1 (or 0 for none); bring it there with unit(v)")
    return length > 0
