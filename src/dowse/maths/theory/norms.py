"""‖∇f‖ and A² from slopes along random directions: Sec. 3.3 and Appendix C."""

import math

from torch import Tensor

from dowse.errors import count


def gradient_norm(slopes: Tensor, D: int) -> float:
    """The estimate √(D/S·Σ(wₛᵀ∇f)²) of ‖∇f‖, Eq. (16). Its square is unbiased.

    Problem: say how long ∇f is from S numbers wₛᵀ∇f. Each is the share of ∇f along a random direction, of which the
    mean square is ‖∇f‖²/D, Eq. (15).

    >>> import torch
    >>> gradient_norm(torch.tensor([3.0, -4.0]), D=8)
    10.0

    Args:
        slopes: the finite differences along S directions uniform on the unit sphere of R^D, (S,).
        D: dimension of the input, at least 1.
    """
    count(D=D)
    return math.sqrt(D * _mean_square(slopes))  # Eq. (16)


def a_square(subspace_slopes: Tensor, d: int, norm: float) -> float:
    """The estimate ‖h‖²/‖∇f‖² of A² (Appendix C), clipped to [0, 1]; ‖h‖² = d/S·Σ(wₛᵀ∇f)² is unbiased.

    Problem: say which share of ∇f lies in the subspace, h = VVᵀ∇f, from S slopes inside it. With `norm` = 0 the limit
    is taken: 0 if all slopes are 0, else 1.

    >>> import torch
    >>> a_square(torch.tensor([3.0, -4.0]), d=4, norm=10.0)
    0.5

    Args:
        subspace_slopes: the finite differences along S directions uniform on the subspace's sphere, (S,).
        d: dimension of the subspace, at least 1.
        norm: ‖∇f‖, for instance from `gradient_norm`.
    """
    count(d=d)
    h_square = d * _mean_square(subspace_slopes)  # Appendix C
    if h_square >= norm**2:
        return float(h_square > 0)
    return h_square / norm**2


def _mean_square(slopes: Tensor) -> float:
    if slopes.ndim != 1 or not len(slopes):
        raise ValueError(f"got slopes of shape {tuple(slopes.shape)}, expected (S,) with S at least 1; raise S")
    return float(slopes.double().square().mean())
