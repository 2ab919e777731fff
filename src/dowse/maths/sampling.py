"""Random directions: uniform on a sphere, uniform in a subspace of up-sampled images, and biased to a prior.

Randomness is an argument: `rng` is a CPU generator, and numbers are drawn on the CPU in the wanted dtype
before they move to the device, so that a seed means the same on every device. Equation numbers are those of
"Improving Black-box Adversarial Attacks with a Transfer-based Prior" (NeurIPS 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from dowse.errors import InputError, is_count

__all__ = ["Subspace", "biased", "sphere", "unit"]


def unit(x: Tensor, *, batched: bool = False) -> Tensor:
    """x/‖x‖; a zero vector stays zero. Right also where the squares of x leave the range of its dtype.

    Args:
        x: one vector (*s); with `batched`, rows (n, *s), each brought to length one by itself.
        batched: whether the first axis counts vectors.

    Returns:
        A new tensor shaped like x.
    """
    n = len(x) if batched else 1
    rows = x.reshape(n, math.prod(x.shape[1:] if batched else x.shape))
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    limits = torch.finfo(x.dtype)
    safe = (length > math.sqrt(limits.tiny) / limits.eps) & (length < math.inf)
    if not bool(safe.all()):
        largest = rows.abs().amax(dim=1, keepdim=True)
        rows = rows / torch.where(largest > 0, largest, 1)
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return (rows / torch.where(length > 0, length, 1)).reshape(x.shape)


def sphere(n: int, like: Tensor, rng: torch.Generator) -> Tensor:
    """n directions ξ uniform on the unit sphere of R^D: E[ξξᵀ] = I/D.

    Args:
        n: number of directions.
        like: a tensor (*s) that gives shape, dtype and device; D is its number of elements.
        rng: a CPU generator.

    Returns:
        (n, *s), rows of length one.
    """
    return _uniform(n, like.shape, like, rng)


def biased(v: Tensor, lam: float, r: Tensor) -> Tensor:
    """Directions biased to the prior: u = √λ·v + √(1−λ)·normalised((I − vvᵀ)rᵢ), Eqs. (11) and (19).

    With r from `sphere` this is Eq. (11), and E[uuᵀ] is C of Eq. (10). With r from `Subspace.sphere` it is
    Eq. (19), and E[uuᵀ] is close to C of Eq. (17). With r from `Subspace.sphere_orthogonal` it is the
    remark of Appendix A.6, and E[uuᵀ] is C of Eq. (17) with v₁' for v₁. The length of rᵢ does not matter.
    Where nothing is left of rᵢ beside v (rᵢ parallel to v, as always when D = 1) the second term is zero,
    and u = √λ·v.

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
    if not _is_direction(prior):
        return _normalise_(rows).view(r.shape)
    along = rows @ prior
    square = torch.linalg.vector_norm(rows, dim=1).square_()
    rest = square - along.square()  # ‖(I − vvᵀ)r‖², good to all digits unless r is nearly parallel to v
    if bool((rest < 0.5 * square).any()):
        _remove_(rows, prior)
        along, rest = torch.zeros_like(along), torch.linalg.vector_norm(rows, dim=1).square_()
    scale = torch.where(rest > 0, math.sqrt(1 - lam) / rest.sqrt(), 0)
    rows.mul_(scale[:, None])
    rows.addr_(math.sqrt(lam) - scale * along, prior)  # Eqs. (11), (19)
    return rows.view(r.shape)


@dataclass(frozen=True)
class Subspace:
    """The data-dependent prior of Sec. 3.4: images (C, H, W) that are small ones (C, h, w), up-sampled.

    Up-sampling is by nearest neighbour: row i of the image belongs to row ⌊i·h/H⌋ of the small one, in whole
    numbers, and columns likewise. V is the D×d matrix with one column per small pixel, its block of the image
    brought to length one. Blocks differ in size where h does not divide H, so each column has its own weight;
    the columns are orthonormal, VᵀV = I.
    """

    C: int
    H: int
    W: int
    h: int
    w: int

    @staticmethod
    def of(subspace: int | tuple[int, int] | None, shape: tuple[int, ...]) -> Subspace | None:
        """The subspace of images of side `subspace`, or of sides (h, w); None is no subspace.

        Args:
            subspace: h = w as one number, or (h, w), each between 1 and the image's side; or None.
            shape: the image's shape (C, H, W).
        """
        if subspace is None:
            return None
        if len(shape) != 3:
            raise InputError(f"got inputs of shape {tuple(shape)}, expected images (C, H, W); use subspace=None")
        C, H, W = shape
        sides = tuple(subspace) if isinstance(subspace, Sequence) else (subspace, subspace)
        if not (len(sides) == 2 and all(map(is_count, sides)) and sides[0] <= H and sides[1] <= W):
            raise InputError(
                f"got subspace = {subspace!r}, expected one side or (height, width), from 1 to those of the image, "
                f"{H}x{W}; choose smaller sides, or subspace=None to search all directions"
            )
        return _shared(C, H, W, int(sides[0]), int(sides[1]))

    @property
    def d(self) -> int:
        """The dimension d = C·h·w."""
        return self.C * self.h * self.w

    def up(self, xi: Tensor) -> Tensor:
        """Vξ. It keeps lengths: ‖Vξ‖ = ‖ξ‖.

        Args:
            xi: (n, C, h, w).

        Returns:
            (n, C, H, W), a new tensor.
        """
        n = len(self._check(xi, (self.C, self.h, self.w)))
        weighted = xi * self._weight.to(xi.device, xi.dtype)
        flat = weighted.reshape(n * self.C, self.h * self.w).index_select(1, self._block.to(xi.device))
        return flat.view(n, self.C, self.H, self.W)

    def down(self, x: Tensor) -> Tensor:
        """Vᵀx, the coordinates of x's projection into the subspace; that projection is `up(down(x))`.

        Args:
            x: (n, C, H, W).

        Returns:
            (n, C, h, w).
        """
        self._check(x, (self.C, self.H, self.W))
        rows, columns = (side.to(x.device, x.dtype) for side in self._sides)
        return rows @ x @ columns.T

    def sphere(self, n: int, like: Tensor, rng: torch.Generator) -> Tensor:
        """n directions Vξ uniform on the unit sphere of the subspace: E[uuᵀ] = VVᵀ/d (Sec. 3.4).

        Args:
            n: number of directions.
            like: a tensor (C, H, W) that gives dtype and device.
            rng: a CPU generator.

        Returns:
            (n, C, H, W), rows of length one.
        """
        return self.up(self._small_sphere(n, like, rng))

    def sphere_orthogonal(self, n: int, v: Tensor, rng: torch.Generator) -> Tensor:
        """n directions uniform on the unit sphere of span{v₁', v₂, …, v_d}, the subspace turned away from v.

        This is the remark of Appendix A.6, which makes Eq. (17) exact. In a basis of the subspace that starts
        with v₁ = normalised(VVᵀv) only v₁ is not orthogonal to v, and v₁' = normalised((I − vvᵀ)v₁) takes its
        place. No basis is built for it, since only one column changes: V'ξ = Vξ + (v₁ᵀVξ)(v₁' − v₁).

        Where v has no part in the subspace (‖VVᵀv‖ is rounding, or v is zero) this is `sphere`. Where v
        lies in the subspace (‖v − VVᵀv‖ is below √ε, ε the precision of the dtype, so that v₁' has lost
        half its digits) v₁ is dropped: uniform on the sphere of the d − 1 directions that remain, and zero
        when none remains.

        Args:
            n: number of directions.
            v: the prior (C, H, W), of length one or zero; gives dtype and device.
            rng: a CPU generator.

        Returns:
            (n, C, H, W), rows of length one, orthogonal to v.
        """
        ξ = self._small_sphere(n, v, rng)
        ε = torch.finfo(v.dtype).eps
        η = self.down(v[None])
        inside = float(torch.linalg.vector_norm(η))
        if not _is_direction(v) or inside <= 16 * ε:
            return self.up(ξ)
        η /= inside
        v1 = self.up(η)[0]
        outside = v - inside * v1
        outside -= self.up(self.down(outside[None]))[0]  # again, so that v₁' stays orthogonal to v₂, …, v_d
        s = float(torch.linalg.vector_norm(outside))
        if s <= math.sqrt(ε):
            _normalise_(_remove_(ξ.view(n, -1), η.reshape(-1)))
            return self.up(ξ)
        v1_turned = s * v1 - (inside / s) * outside  # (v₁ − (vᵀv₁)v)/s, with v = inside·v₁ + outside
        u = self.up(ξ)
        along = ξ.view(n, -1) @ η.reshape(-1)  # v₁ᵀVξ
        u.view(n, -1).addr_(along, (v1_turned - v1).reshape(-1))  # V'ξ, Appendix A.6
        return u

    def _small_sphere(self, n: int, like: Tensor, rng: torch.Generator) -> Tensor:
        """ξ uniform on the unit sphere of R^d, (n, C, h, w)."""
        if like.shape != (self.C, self.H, self.W):
            raise ValueError(
                f"got a tensor of shape {tuple(like.shape)}, expected {(self.C, self.H, self.W)}; "
                f"make one Subspace per image shape"
            )
        return _uniform(n, (self.C, self.h, self.w), like, rng)

    def _check(self, x: Tensor, shape: tuple[int, int, int]) -> Tensor:
        if x.ndim != 4 or x.shape[1:] != shape:
            raise ValueError(f"got shape {tuple(x.shape)}, expected (n, *{shape}); add the axis of rows, n")
        return x

    @cached_property
    def _rows(self) -> Tensor:
        """For each row of the big image its row in the small one, (H,): ⌊i·h/H⌋."""
        return torch.arange(self.H) * self.h // self.H

    @cached_property
    def _columns(self) -> Tensor:
        """For each column of the big image its column in the small one, (W,)."""
        return torch.arange(self.W) * self.w // self.W

    @cached_property
    def _block(self) -> Tensor:
        """For each pixel of a flat big channel its pixel in the flat small one, (H·W,)."""
        return (self._rows[:, None] * self.w + self._columns).flatten()

    @cached_property
    def _weight(self) -> Tensor:
        """What each column of V holds in its block, 1/√(the block's size), (h, w)."""
        sizes = torch.bincount(self._block, minlength=self.h * self.w).view(self.h, self.w)
        return sizes.double().rsqrt()

    @cached_property
    def _sides(self) -> tuple[Tensor, Tensor]:
        """Vᵀ of the rows (h, H) and of the columns (w, W): V of a channel is their (Kronecker) product."""

        def side(index: Tensor, small: int) -> Tensor:
            indicator = (index == torch.arange(small)[:, None]).double()
            return indicator / indicator.sum(1, keepdim=True).sqrt()

        return side(self._rows, self.h), side(self._columns, self.w)


@lru_cache(maxsize=32)
def _shared(C: int, H: int, W: int, h: int, w: int) -> Subspace:
    """One Subspace for all who ask for the same, since each holds an index as large as a channel."""
    return Subspace(C, H, W, h, w)


def _uniform(n: int, shape: Sequence[int], like: Tensor, rng: torch.Generator) -> Tensor:
    """Uniform on the unit sphere, (n, *shape), in the dtype and on the device of `like`."""
    ξ = torch.empty((n, math.prod(shape)), dtype=like.dtype).normal_(generator=rng)
    return _normalise_(ξ).view(n, *shape).to(like.device)


def _normalise_(rows: Tensor) -> Tensor:
    """Brings rows (n, D) to length one in place; a zero row stays zero."""
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows.div_(torch.where(length > 0, length, 1))


def _remove_(rows: Tensor, direction: Tensor) -> Tensor:
    """Makes rows (n, D) orthogonal to a unit direction (D,) in place; what is only rounding becomes zero.

    Twice, because what one subtraction leaves of a nearly parallel row is orthogonal to a few digits only.
    """
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    for _ in range(2):
        rows.addr_(rows @ direction, direction, alpha=-1)
    left = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows.mul_(left > 16 * torch.finfo(rows.dtype).eps * length)


def _is_direction(v: Tensor) -> bool:
    """Whether v has length one; False for zero, and an error for anything else."""
    length = float(torch.linalg.vector_norm(v))
    if length and not abs(length - 1) < 1e-3:
        raise ValueError(f"got a prior v of length {length:g}, expected 1 (or 0 for none); bring it there with unit(v)")
    return length > 0
