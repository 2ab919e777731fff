"""The prior as one estimate beside another, Appendix B: E[β], the losses of Theorems 2 and 3, and the weights μ*."""

import math

from dowse.errors import count

THRESHOLD_C = 1 / (1 + math.sqrt(2))
"""The threshold c of Algorithm 2: at μ* ≥ c the averaging method returns the prior and asks no queries."""


def expected_cosine(D: int, q: int) -> float:
    """E[β] ≈ √(q/(D+q−1)) (Appendix B): the cosine of ∇f and the RGF estimate with q uniform directions.

    It is √F(1/D) of Eq. (A.7), an approximation. In simulation its relative error lies between −0.4/D and
    0.27/q: it is too large by about 1/(4q) where q is much smaller than D (25 % at q = 1, 2.5 % at q = 10), since
    β is then like the length of q normal numbers and the formula takes the mean of their squares.

    >>> round(expected_cosine(D=150_528, q=50), 4)  # fifty queries at 3×224×224
    0.0182
    >>> expected_cosine(D=1, q=50)
    1.0
    """
    return expected_cosine_subspace(1.0, D, q)


def expected_cosine_subspace(a_square: float, d: int, q: int) -> float:
    """E[β] ≈ √(A²q/(d+q−1)) (Appendix B.1): the cosine of ∇f and the RGF estimate inside the subspace.

    It is √F(0) of Eq. (A.11), an approximation as in `expected_cosine`.

    >>> round(expected_cosine_subspace(0.2, d=7500, q=50), 4)  # a fifth of ‖∇f‖² in a twentieth of the dimensions
    0.0364
    """
    count(d=d, q=q)
    return math.sqrt(a_square * q / (d + q - 1))


def averaging_loss(mu: float, alpha: float, expected_beta: float) -> float:
    """The loss of gradient averaging, Theorem 2, Eq. (B.2), for ‖∇f‖ = 1: min over b ≥ 0 of E‖∇f − bĝ‖².

    ĝ = μv + (1−μ)·ĝᵁ/‖ĝᵁ‖, Eq. (B.1), where ĝᵁ is the RGF estimate with uniform directions.

    >>> round(averaging_loss(0.5, alpha=0.6, expected_beta=0.6), 4)  # each alone: 1 − 0.36
    0.4706
    """
    return _mixture_loss(mu, alpha, expected_beta, alpha * expected_beta)  # Eq. (B.2)


def averaging_loss_subspace(mu: float, alpha: float, alpha_1: float, a_square: float, expected_beta: float) -> float:
    """The loss of gradient averaging inside a subspace, Theorem 3, Eq. (B.6), for ‖∇f‖ = 1.

    That is min over b ≥ 0 of E‖∇f − bĝ‖² with ĝ = μv + (1−μ)·ĝˢ/‖ĝˢ‖, Eq. (B.5), ĝˢ the RGF estimate with
    directions uniform in the subspace. A² = 0 forces α₁ = E[β] = 0, and the mixed term vanishes.

    >>> round(averaging_loss_subspace(0.5, alpha=0.6, alpha_1=0.0, a_square=0.64, expected_beta=0.6), 4)
    0.28
    """
    return _mixture_loss(mu, alpha, expected_beta, _cross(alpha_1, a_square, expected_beta))  # Eq. (B.6)


def mu_star(alpha: float, expected_beta: float) -> float:
    """The weight μ* that minimises `averaging_loss`, Eq. (B.2), over [0, 1]: the exact form of Eq. (B.4).

    Degenerate inputs: α ≥ 1 gives 1, α ≤ 0 gives 0 (also when E[β] = 0, where every weight is as good).

    >>> mu_star(alpha=0.6, expected_beta=0.6)
    0.5
    >>> μ = mu_star(alpha=0.3, expected_beta=0.1)
    >>> averaging_loss(μ, 0.3, 0.1) < min(averaging_loss(μ - 0.01, 0.3, 0.1), averaging_loss(μ + 0.01, 0.3, 0.1))
    True
    """
    if alpha >= 1:
        return 1.0
    return _best_weight(alpha, expected_beta, alpha * expected_beta)  # Eq. (B.4)


def mu_star_subspace(alpha: float, alpha_1: float, a_square: float, expected_beta: float) -> float:
    """The weight μ* that minimises `averaging_loss_subspace`, Eq. (B.6), over [0, 1]: Eq. (B.7), clipped to [0, 1].

    The clipping is no matter of rounding: with α·α₁ > A² the unconstrained optimum subtracts ĝˢ from the
    prior, and with α·A² < α₁·E[β]² it subtracts the prior from ĝˢ. Degenerate inputs: A² = 0, and with it
    E[β] = 0, gives 1 if α > 0, else 0.

    >>> round(mu_star_subspace(alpha=0.6, alpha_1=0.0, a_square=0.64, expected_beta=0.2), 3)  # v ⊥ V: α/(α + E[β])
    0.75
    >>> mu_star_subspace(alpha=0.6, alpha_1=0.5, a_square=0.25, expected_beta=0.2)  # 0.6·0.5 > 0.25
    1.0
    """
    return _best_weight(alpha, expected_beta, _cross(alpha_1, a_square, expected_beta))  # Eq. (B.7)


def mu_star_approximate(alpha: float, expected_beta: float) -> float:
    """The approximation μ* ≈ α/(α + E[β]) of Eqs. (B.4) and (B.7), in [0, 1]; 0 for α ≤ 0.

    It minimises neither loss but where v and ĝˢ are orthogonal, and needs no α₁.

    >>> round(mu_star_approximate(alpha=0.3, expected_beta=0.1), 3), round(mu_star(alpha=0.3, expected_beta=0.1), 3)
    (0.75, 0.765)
    """
    if alpha <= 0:
        return 0.0
    return alpha / (alpha + expected_beta)  # Eq. (B.4), right-hand side


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
