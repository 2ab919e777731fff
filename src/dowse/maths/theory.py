"""The closed forms of the paper: Theorems 1 to 3, both λ*, both μ*, E[β], and the estimates of ‖∇f‖ and A².

"Improving Black-box Adversarial Attacks with a Transfer-based Prior" (NeurIPS 2019), Sec. 3 and Appendices
A to C. Throughout, α = vᵀ∇f/‖∇f‖ is the cosine of the prior v, A² = ‖VVᵀ∇f‖²/‖∇f‖² the share of the gradient
inside the subspace spanned by the d columns of V, and q the number of random directions.

Differences to the paper:
- λ* is J/(J + (K−J)) where Eqs. (12) and (18) print J/K. Factored, J and K−J are both positive: it is the
  same number with no cancellation, and it cannot leave [0, 1] by rounding.
- μ* is the optimum over μ in [0, 1], as Eq. (B.1) has it. Eq. (B.7) as printed may leave that interval (it
  exceeds 1 as soon as α·α₁ > A²), and is clipped here.
- Estimates are noisy, so α² > 1 is taken for what it says: the prior is the gradient.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = torch.Tensor | NDArray[np.floating[Any]]

__all__ = [
    "THRESHOLD_C",
    "a_square",
    "averaging_loss",
    "averaging_loss_subspace",
    "expected_cosine",
    "expected_cosine_subspace",
    "gradient_norm",
    "lambda_star",
    "lambda_star_subspace",
    "mu_star",
    "mu_star_approximate",
    "mu_star_subspace",
    "objective",
    "objective_subspace",
    "rgf_loss",
]

THRESHOLD_C = 1 / (1 + math.sqrt(2))
"""The threshold c of Algorithm 2: at μ* ≥ c the averaging method returns the prior and asks no queries."""


def rgf_loss(grad: Array, C: Array, q: int) -> float:
    """The loss of the RGF estimator, Theorem 1, Eq. (9): min over b ≥ 0 of E‖∇f − bĝ‖², as σ → 0.

    ĝ is the mean of q estimates (uᵢᵀ∇f)uᵢ with ‖uᵢ‖ = 1 and E[uᵢuᵢᵀ] = C. When ∇fᵀC∇f = 0 every estimate is
    zero and the loss is ‖∇f‖².

    Args:
        grad: the true gradient ∇f, (D,).
        C: the second moment of the directions, (D, D), symmetric with trace 1.
        q: number of directions, at least 1.
    """
    _check_counts(q=q)
    g = torch.as_tensor(grad, dtype=torch.float64, device="cpu").detach()
    Cg = torch.as_tensor(C, dtype=torch.float64, device="cpu").detach() @ g
    first, second = float(g @ Cg), float(Cg @ Cg)
    return float(g @ g) - _share(first, second, q)  # Eq. (9)


def objective(lam: float, alpha_square: float, D: int, q: int) -> float:
    """F(λ) of Eq. (A.7): the share of ‖∇f‖² that P-RGF with bias λ explains, 1 − L(ĝ)/‖∇f‖².

    It is Theorem 1 at C = λ·vvᵀ + (1−λ)/(D−1)·(I − vvᵀ), Eq. (10). λ* maximises it over [0, 1].

    Args:
        lam: the bias λ in [0, 1].
        alpha_square: α².
        D: dimension of the input, at least 2 (Eq. (10) divides by D − 1).
        q: number of directions, at least 1.
    """
    _check_counts(q=q)
    if D < 2:
        raise ValueError(f"got D = {D}, expected at least 2; with D = 1 there is no direction beside the prior")
    α2, rest = alpha_square, (1 - lam) / (D - 1)
    first = lam * α2 + rest * (1 - α2)
    second = lam**2 * α2 + rest**2 * (1 - α2)
    return _share(first, second, q)  # Eq. (A.7)


def objective_subspace(lam: float, alpha_square: float, a_square: float, d: int, q: int) -> float:
    """F(λ) of Eq. (A.11): the share of ‖∇f‖² explained with a data-dependent prior, 1 − L(ĝ)/‖∇f‖².

    It is Theorem 1 at C = λ·vvᵀ + (1−λ)/d·VVᵀ, Eq. (17), for a prior v orthogonal to the subspace: (A.11) has
    no term 2λ(1−λ)/d·α·vᵀVVᵀ∇f/‖∇f‖, which Theorem 1 has otherwise.

    Args:
        lam: the bias λ in [0, 1].
        alpha_square: α².
        a_square: A², the share of the gradient inside the subspace.
        d: dimension of the subspace, at least 1.
        q: number of directions, at least 1.
    """
    _check_counts(d=d, q=q)
    α2, A2, rest = alpha_square, a_square, (1 - lam) / d
    first = lam * α2 + rest * A2
    second = lam**2 * α2 + rest**2 * A2
    return _share(first, second, q)  # Eq. (A.11)


def lambda_star(alpha_square: float, D: int, q: int) -> float:
    """The bias λ* that maximises F(λ) of Eq. (A.7) over [0, 1], Eq. (12).

    Always in [0, 1]. Degenerate inputs: α² = 0 gives 0; α² ≥ 1 gives 1; with q = 1, F is linear and λ* is 0
    up to α² = 1/D and 1 above it; with D = 1 the prior is the only direction there is, and λ* is 1.

    Args:
        alpha_square: α², at least 0.
        D: dimension of the input, at least 1.
        q: number of directions, at least 1.
    """
    _check_counts(D=D, q=q)
    _check_square(alpha_square=alpha_square)
    if D == 1:
        return 1.0
    α2 = alpha_square
    scaled = α2 * (D + 2 * q - 2)
    if scaled <= 1:
        return 0.0
    if scaled >= 2 * q - 1:
        return 1.0
    J = (1 - α2) * (scaled - 1)  # numerator of Eq. (12)
    K_minus_J = α2 * (D - 1) * ((2 * q - 1) - scaled)  # its denominator is K = 2α²Dq − α⁴D(D+2q−2) − 1
    return J / (J + K_minus_J)  # Eq. (12)


def lambda_star_subspace(alpha_square: float, a_square: float, d: int, q: int) -> float:
    """The bias λ* that maximises F(λ) of Eq. (A.11) over [0, 1], Eq. (18).

    Always in [0, 1], and a function of α²/A² only. Degenerate inputs: α² = 0 gives 0, also when A² = 0;
    A² = 0 with α² > 0 gives 1 (the subspace knows nothing of the gradient); with q = 1, F is linear and λ* is
    0 up to α² = A²/d and 1 above it. α² = 1 is nothing special here: it gives 1 only if 1 ≥ A²(2q−1)/d.

    Args:
        alpha_square: α², at least 0.
        a_square: A², at least 0.
        d: dimension of the subspace, at least 1.
        q: number of directions, at least 1.
    """
    _check_counts(d=d, q=q)
    _check_square(alpha_square=alpha_square, a_square=a_square)
    if alpha_square == 0:
        return 0.0
    if a_square == 0:
        return 1.0
    ρ = alpha_square / a_square
    if ρ * (d + 2 * q - 2) <= 1:
        return 0.0
    if ρ * d >= 2 * q - 1:
        return 1.0
    J = ρ * (d + 2 * q - 2) - 1  # numerator of Eq. (18), divided by −A⁴
    K_minus_J = ρ * d * ((2 * q - 1) - ρ * d)  # its denominator, likewise, is K = 2ρ(q+dq−1) − ρ²d² − 1
    return J / (J + K_minus_J)  # Eq. (18)


def expected_cosine(D: int, q: int) -> float:
    """E[β] ≈ √(q/(D+q−1)) (Appendix B): the cosine of ∇f and the RGF estimate with q uniform directions.

    It is √F(1/D) of Eq. (A.7), an approximation. In simulation its relative error lies between −0.4/D and
    0.27/q: it is too large by about 1/(4q) where q is much smaller than D (25 % at q = 1, 2.5 % at q = 10), since
    β is then like the length of q normal numbers and the formula takes the mean of their squares.

    Args:
        D: dimension of the input, at least 1.
        q: number of directions, at least 1.
    """
    return expected_cosine_subspace(1.0, D, q)


def expected_cosine_subspace(a_square: float, d: int, q: int) -> float:
    """E[β] ≈ √(A²q/(d+q−1)) (Appendix B.1): the cosine of ∇f and the RGF estimate inside the subspace.

    It is √F(0) of Eq. (A.11), an approximation as in `expected_cosine`.

    Args:
        a_square: A², the share of the gradient inside the subspace.
        d: dimension of the subspace, at least 1.
        q: number of directions, at least 1.
    """
    _check_counts(d=d, q=q)
    return math.sqrt(a_square * q / (d + q - 1))


def averaging_loss(mu: float, alpha: float, expected_beta: float) -> float:
    """The loss of gradient averaging, Theorem 2, Eq. (B.2), for ‖∇f‖ = 1: min over b ≥ 0 of E‖∇f − bĝ‖².

    ĝ = μv + (1−μ)·ĝᵁ/‖ĝᵁ‖, Eq. (B.1), where ĝᵁ is the RGF estimate with uniform directions.

    Args:
        mu: the weight μ in [0, 1].
        alpha: α.
        expected_beta: E[β], the expected cosine of ∇f and ĝᵁ.
    """
    return _mixture_loss(mu, alpha, expected_beta, alpha * expected_beta)  # Eq. (B.2)


def averaging_loss_subspace(mu: float, alpha: float, alpha_1: float, a_square: float, expected_beta: float) -> float:
    """The loss of gradient averaging inside a subspace, Theorem 3, Eq. (B.6), for ‖∇f‖ = 1.

    That is min over b ≥ 0 of E‖∇f − bĝ‖² with ĝ = μv + (1−μ)·ĝˢ/‖ĝˢ‖, Eq. (B.5), ĝˢ the RGF estimate with
    directions uniform in the subspace. A² = 0 forces α₁ = E[β] = 0, and the mixed term vanishes.

    Args:
        mu: the weight μ in [0, 1].
        alpha: α.
        alpha_1: α₁ = vᵀVVᵀ∇f/‖∇f‖.
        a_square: A².
        expected_beta: E[β], the expected cosine of ∇f and ĝˢ.
    """
    return _mixture_loss(mu, alpha, expected_beta, _cross(alpha_1, a_square, expected_beta))  # Eq. (B.6)


def mu_star(alpha: float, expected_beta: float) -> float:
    """The weight μ* that minimises Eq. (B.2) over [0, 1], the exact form of Eq. (B.4).

    Degenerate inputs: α ≥ 1 gives 1, α ≤ 0 gives 0 (also when E[β] = 0, where every weight is as good).

    Args:
        alpha: α.
        expected_beta: E[β], at least 0.
    """
    if alpha >= 1:
        return 1.0
    return _best_weight(alpha, expected_beta, alpha * expected_beta)  # Eq. (B.4)


def mu_star_subspace(alpha: float, alpha_1: float, a_square: float, expected_beta: float) -> float:
    """The weight μ* that minimises Eq. (B.6) over [0, 1], the exact form of Eq. (B.7), clipped to [0, 1].

    The clipping is no matter of rounding: with α·α₁ > A² the unconstrained optimum subtracts ĝˢ from the
    prior, and with α·A² < α₁·E[β]² it subtracts the prior from ĝˢ. Degenerate inputs: A² = 0, and with it
    E[β] = 0, gives 1 if α > 0, else 0.

    Args:
        alpha: α.
        alpha_1: α₁ = vᵀVVᵀ∇f/‖∇f‖.
        a_square: A².
        expected_beta: E[β], at least 0.
    """
    return _best_weight(alpha, expected_beta, _cross(alpha_1, a_square, expected_beta))  # Eq. (B.7)


def mu_star_approximate(alpha: float, expected_beta: float) -> float:
    """The approximation μ* ≈ α/(α + E[β]) of Eqs. (B.4) and (B.7), in [0, 1]; 0 for α ≤ 0.

    Args:
        alpha: α.
        expected_beta: E[β], at least 0.
    """
    if alpha <= 0:
        return 0.0
    return alpha / (alpha + expected_beta)  # Eq. (B.4), right-hand side


def gradient_norm(slopes: torch.Tensor, D: int) -> float:
    """The estimate √(D/S·Σ(wₛᵀ∇f)²) of ‖∇f‖, Eq. (16). Its square is unbiased.

    Args:
        slopes: the finite differences along S directions uniform on the unit sphere of R^D, (S,).
        D: dimension of the input, at least 1.
    """
    _check_counts(D=D)
    return math.sqrt(D * _mean_square(slopes))  # Eq. (16)


def a_square(subspace_slopes: torch.Tensor, d: int, norm: float) -> float:
    """The estimate ‖h‖²/‖∇f‖² of A² (Appendix C), clipped to [0, 1]; ‖h‖² = d/S·Σ(wₛᵀ∇f)² is unbiased.

    With `norm` = 0 the limit is taken: 0 if all slopes are 0, else 1.

    Args:
        subspace_slopes: the finite differences along S directions uniform on the subspace's sphere, (S,).
        d: dimension of the subspace, at least 1.
        norm: ‖∇f‖, for instance from `gradient_norm`.
    """
    _check_counts(d=d)
    h_square = d * _mean_square(subspace_slopes)  # Appendix C
    if h_square >= norm**2:
        return float(h_square > 0)
    return h_square / norm**2


def _share(first: float, second: float, q: int) -> float:
    """(∇fᵀE[ĝ])²/E‖ĝ‖² from ∇fᵀC∇f and ∇fᵀC²∇f, the fraction of Eq. (9); 0 where ĝ = 0."""
    if first <= 0:
        return 0.0
    return first / ((1 - 1 / q) * (second / first) + 1 / q)  # so ordered, first² does not underflow


def _cross(alpha_1: float, a_square: float, expected_beta: float) -> float:
    """vᵀE[ĝˢ/‖ĝˢ‖] = α₁·E[β]/A² (Appendix B.1); 0 where A² = 0, and no cosine, however noisy, exceeds 1."""
    return min(max(alpha_1 * expected_beta / a_square, -1.0), 1.0) if a_square > 0 else 0.0


def _mixture_loss(mu: float, alpha: float, beta: float, cross: float) -> float:
    """1 − (pᵀw)²/(wᵀMw) for w = (μ, 1−μ), p = (α, β), M = [[1, cross], [cross, 1]]; 1 where b = 0 is best."""
    agreement = mu * alpha + (1 - mu) * beta
    size = mu**2 + (1 - mu) ** 2 + 2 * mu * (1 - mu) * cross
    if agreement <= 0 or size <= 0:
        return 1.0
    return 1 - agreement**2 / size


def _best_weight(alpha: float, beta: float, cross: float) -> float:
    """The μ in [0, 1] that minimises `_mixture_loss`: w ∝ M⁻¹p where both weights are positive."""
    prior, estimate = alpha - cross * beta, beta - cross * alpha
    if estimate <= 0 and alpha > 0:
        return 1.0
    if prior <= 0:
        return 0.0
    return prior / (prior + estimate)


def _mean_square(slopes: torch.Tensor) -> float:
    if slopes.ndim != 1 or not len(slopes):
        raise ValueError(f"got slopes of shape {tuple(slopes.shape)}, expected (S,) with S at least 1; raise S")
    return float(slopes.double().square().mean())


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"got {name} = {value}, expected at least 1; give a positive whole number")


def _check_square(**squares: float) -> None:
    for name, value in squares.items():
        if not value >= 0:
            raise ValueError(f"got {name} = {value}, expected a number of at least 0; look for NaN in the answers")
