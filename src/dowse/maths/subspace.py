"""The data-dependent prior's subspace: images that are small ones, up-sampled by nearest neighbour (Sec. 3.4).

Equation numbers are those of "Improving Black-box Adversarial Attacks with a Transfer-based Prior" (NeurIPS 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from dowse.errors import InputError, is_count
from dowse.maths.sampling import is_direction, normalise_, remove_, sphere

__all__ = ["Subspace"]


@dataclass(frozen=True)
class Subspace:
    """The data-dependent prior of Sec. 3.4: images (C, H, W) that are small ones (C, h, w), up-sampled.

    Up-sampling is by nearest neighbour: row i of the image belongs to row ⌊i·h/H⌋ of the small one, in whole
    numbers, and columns likewise. V is the D×d matrix with one column per small pixel, its block of the image
    brought to length one. Blocks differ in size where h does not divide H, so each column has its own weight;
    the columns are orthonormal, VᵀV = I.

    >>> V = Subspace.of(2, (1, 3, 3))
    >>> V.d
    4
    >>> V.repeat(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
    tensor([[[[1., 1., 2.],
              [1., 1., 2.],
              [3., 3., 4.]]]])
    >>> V.up(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
    tensor([[[[0.5000, 0.5000, 1.4142],
              [0.5000, 0.5000, 1.4142],
              [2.1213, 2.1213, 4.0000]]]])
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
                f"{H}x{W}; choose smaller sides, or subspace=None"
            )
        return _shared(C, H, W, int(sides[0]), int(sides[1]))

    @property
    def d(self) -> int:
        """The dimension d = C·h·w."""
        return self.C * self.h * self.w

    @property
    def small(self) -> tuple[int, int, int]:
        """The shape (C, h, w) of a small image."""
        return self.C, self.h, self.w

    def up(self, xi: Tensor) -> Tensor:
        """Vξ. It keeps lengths: ‖Vξ‖ = ‖ξ‖.

        Args:
            xi: (n, C, h, w).

        Returns:
            (n, C, H, W), a new tensor.
        """
        return self.repeat(self._check(xi, self.small) * self._weight.to(xi))

    def repeat(self, small: Tensor) -> Tensor:
        """Each small pixel in all of its block, as it is: up-sampling without the weights of V.

        Args:
            small: (n, C, h, w).

        Returns:
            (n, C, H, W), a new tensor.
        """
        n = len(self._check(small, self.small))
        flat = small.reshape(n * self.C, self.h * self.w).index_select(1, self._block.to(small.device))
        return flat.view(n, self.C, self.H, self.W)

    def down(self, x: Tensor) -> Tensor:
        """Vᵀx, the coordinates of x's projection into the subspace; that projection is `up(down(x))`.

        Args:
            x: (n, C, H, W).

        Returns:
            (n, C, h, w).
        """
        self._check(x, (self.C, self.H, self.W))
        rows, columns = (side.to(x) for side in self._sides)
        return rows @ x @ columns.T

    def block_mean(self, x: Tensor) -> Tensor:
        """The mean of x in each block; `repeat` puts it back there.

        Args:
            x: (n, C, H, W).

        Returns:
            (n, C, h, w).
        """
        return self.down(x) * self._weight.to(x)

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
        if not is_direction(v) or inside <= 16 * ε:
            return self.up(ξ)
        η /= inside
        v1 = self.up(η)[0]
        outside = v - inside * v1
        outside -= self.up(self.down(outside[None]))[0]  # again, so that v₁' stays orthogonal to v₂, …, v_d
        s = float(torch.linalg.vector_norm(outside))
        if s <= math.sqrt(ε):
            normalise_(remove_(ξ.view(n, -1), η.reshape(-1)))
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
        return sphere(n, like.new_empty(self.small), rng)

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
