"""‖∇f‖ where answers are noisy, and from probes that are asked anyway: two estimates beside Eq. (16).

Beyond the paper, which takes f for exact and measures ‖∇f‖ by probes of their own.
"""

from torch import Tensor

from dowse.errors import count


def norm_square_noisy(slopes: Tensor, D: int, noise: float) -> float:
    """An unbiased estimate D·(Var(s) − noise) of ‖∇f‖²; it may be negative.

    Problem: say how long ∇f is from S slopes that show wₛᵀ∇f and noise. Answers f(x + δ) and f(x) have each an error of
    variance τ². That of f(x) is the same in all S slopes, so it is no part of their variance; that of f(x + δ) adds
    τ²/‖δ‖², which Eq. (16) takes for slope.

    >>> import torch
    >>> norm_square_noisy(torch.tensor([3.0, -3.0]), D=8, noise=10.0)
    64.0

    Args:
        slopes: the finite differences along S directions uniform on the unit sphere of R^D, (S,), S at least 2.
        D: dimension of the input, at least 1.
        noise: τ²/‖δ‖², the variance that an answer's error gives a slope.
    """
    count(D=D)
    return D * (_variance(slopes) - noise)


def norm_square_leaning(
    slopes: Tensor, signs: Tensor, along: float, lam: float, per: float, noise: float = 0.0
) -> float:
    """An unbiased estimate of ‖∇f‖² from the probes of Eq. (11), which are asked anyway; it may be negative.

    Problem: the directions ±(√λ·v + √(1−λ)·ξ) lean towards v, whose slope is known. Less ±√λ times that, the slopes are
    those along √(1−λ)·ξ, with ξ uniform on the sphere orthogonal to v, and their variance is
    (1−λ)·(‖∇f‖² − (vᵀ∇f)²)/(D−1). Noise adds τ²/‖δ‖² to it; where signs alternate, the error of v's own slope is seen
    too, of variance 2τ²/‖δ‖², λ times. (vᵀ∇f)² itself is seen too large by as much.

    >>> import torch
    >>> norm_square_leaning(torch.tensor([1.0, -1.0]), torch.ones(2), along=2.0, lam=0.0, per=3)
    10.0

    Args:
        slopes: the finite differences along the q directions, (q,), q at least 2.
        signs: 1 or −1 for each, (q,).
        along: the slope measured along v.
        lam: λ, below 1.
        per: D − 1, or d/A² with directions ξ of a subspace that holds the share A² of ∇f: how ‖∇f‖² spreads over them.
        noise: τ²/‖δ‖², the variance that an answer's error gives a slope.
    """
    rest = slopes.double() - lam**0.5 * along * signs.double()
    seen = _variance(rest) - noise * (1 + 2 * lam * _variance(signs))
    return along**2 - 2 * noise + per * seen / (1 - lam)


def _variance(values: Tensor) -> float:
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"got values of shape {tuple(values.shape)}, expected (S,) with S at least 2; raise S")
    return float(values.double().var())
