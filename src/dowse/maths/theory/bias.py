"""The prior inside the directions: the loss of Theorem 1, F(λ) with and without a subspace, and the biases λ*."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from dowse.errors import count


def rgf_loss(grad: Tensor | NDArray[Any], C: Tensor | NDArray[Any], q: int) -> float:
    """The loss of the RGF estimator, Theorem 1, Eq. (9): min over b ≥ 0 of E‖∇f − bĝ‖², as σ → 0.

    ĝ is the mean of q estimates (uᵢᵀ∇f)uᵢ with ‖uᵢ‖ = 1 and E[uᵢuᵢᵀ] = C. When ∇fᵀC∇f = 0 every estimate is
    zero and the loss is ‖∇f‖².

    >>> g = torch.tensor([3.0, 4.0], dtype=torch.float64)
    >>> round(rgf_loss(g, torch.eye(2) / 2, q=1), 12)  # a uniform direction of the plane sees half of ‖g‖² = 25
    12.5
    >>> round(rgf_loss(g, torch.outer(g, g) / 25, q=1), 12) + 0.0  # the direction of g sees it all
    0.0

    Args:
        grad: the true gradient ∇f, (D,).
        C: the second moment of the directions, (D, D), symmetric with trace 1.
        q: number of directions, at least 1.
    """
    count(q=q)
    g = torch.as_tensor(grad, dtype=torch.float64, device="cpu").detach()
    Cg = torch.as_tensor(C, dtype=torch.float64, device="cpu").detach() @ g
    first, second = float(g @ Cg), float(Cg @ Cg)
    return float(g @ g) - _share(first, second, q)  # Eq. (9)


def objective(lam: float, alpha_square: float, D: int, q: int) -> float:
    """F(λ) of Eq. (A.7): the share of ‖∇f‖² that P-RGF with bias λ explains, 1 − L(ĝ)/‖∇f‖².

    It is Theorem 1 at C = λ·vvᵀ + (1−λ)/(D−1)·(I − vvᵀ), Eq. (10), for D ≥ 2. λ* maximises it over [0, 1].

    >>> objective(1.0, alpha_square=0.04, D=1000, q=50)  # v alone: α²
    0.04
    >>> round(objective(1 / 1000, alpha_square=0.04, D=1000, q=50), 6)  # no bias: q/(D + q − 1)
    0.047664
    """
    count(q=q)
    if D < 2:
        raise ValueError(f"got D = {D}, expected at least 2; with D = 1 there is no direction beside the prior")
    α2, rest = alpha_square, (1 - lam) / (D - 1)
    first = lam * α2 + rest * (1 - α2)
    second = lam**2 * α2 + rest**2 * (1 - α2)
    return _share(first, second, q)  # Eq. (A.7)


def objective_subspace(lam: float, alpha_square: float, a_square: float, d: int, q: int) -> float:
    """F(λ) of Eq. (A.11): the share of ‖∇f‖² explained with a data-dependent prior, 1 − L(ĝ)/‖∇f‖².

    It is Theorem 1 at C = λ·vvᵀ + (1−λ)/d·VVᵀ, Eq. (17), for a prior v orthogonal to the subspace: (A.11) has
    no term 2λ(1−λ)/d·α·vᵀVVᵀ∇f/‖∇f‖, which Theorem 1 has otherwise. λ* maximises it over [0, 1].

    >>> objective_subspace(1.0, alpha_square=0.04, a_square=0.5, d=100, q=50)  # v alone: α²
    0.04
    >>> round(objective_subspace(0.0, alpha_square=0.04, a_square=0.5, d=100, q=50), 6)  # no bias: A²q/(d + q − 1)
    0.167785
    """
    count(d=d, q=q)
    α2, A2, rest = alpha_square, a_square, (1 - lam) / d
    first = lam * α2 + rest * A2
    second = lam**2 * α2 + rest**2 * A2
    return _share(first, second, q)  # Eq. (A.11)


def lambda_star(alpha_square: float, D: int, q: int) -> float:
    """The bias λ* that maximises `objective`, F(λ) of Eq. (A.7), over [0, 1]: Eq. (12).

    Always in [0, 1]. Degenerate inputs: α² = 0 gives 0; α² ≥ 1 gives 1; with q = 1, F is linear and λ* is 0
    up to α² = 1/D and 1 above it; with D = 1 the prior is the only direction there is, and λ* is 1.

    >>> [round(lambda_star(α**2, D=1000, q=50), 3) for α in (0.0, 0.1, 0.2, 0.3, 0.4)]
    [0.0, 0.011, 0.018, 0.846, 1.0]
    >>> λ, F = lambda_star(0.04, 1000, 50), [objective(k / 100, 0.04, 1000, 50) for k in range(101)]
    >>> max(F) <= objective(λ, 0.04, 1000, 50)
    True
    """
    count(D=D, q=q)
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
    """The bias λ* that maximises `objective_subspace`, F(λ) of Eq. (A.11), over [0, 1]: Eq. (18).

    Always in [0, 1], and a function of α²/A² only. Degenerate inputs: α² = 0 gives 0, also when A² = 0;
    A² = 0 with α² > 0 gives 1 (the subspace knows nothing of the gradient); with q = 1, F is linear and λ* is
    0 up to α² = A²/d and 1 above it. α² = 1 is nothing special here: it gives 1 only if 1 ≥ A²(2q−1)/d.

    >>> [round(lambda_star_subspace(α**2, a_square=0.5, d=1000, q=50), 3) for α in (0.0, 0.1, 0.2, 0.3)]
    [0.0, 0.013, 0.054, 1.0]
    """
    count(d=d, q=q)
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


def lambda_star_before_fix(alpha_square: float, a_square: float, d: int, q: int, D: int) -> float:
    """λ* with the data prior as the authors' code had it until 2023-09-09, for comparison.

    Where the quotient of Eq. (18) lies in (0, 1) it was taken, whichever case it belongs to; elsewhere D decided, not d
    and A²: 1 as soon as α²(D + 2q − 2) ≥ 1, else 0.

    >>> [round(lambda_star_before_fix(α**2, 0.5, 1000, 50, D=10_000), 3) for α in (0.0, 0.015, 0.1, 0.2, 0.3)]
    [0.0, 1.0, 0.013, 0.054, 1.0]
    """
    count(d=d, q=q, D=D)
    _check_square(alpha_square=alpha_square, a_square=a_square)
    if alpha_square >= 1:
        return 1.0
    J = a_square * (a_square - alpha_square * (d + 2 * q - 2))
    K = a_square**2 + alpha_square**2 * d**2 - 2 * a_square * alpha_square * (q + d * q - 1)
    if K != 0 and 0 < J / K < 1:
        return J / K
    return float(alpha_square * (D + 2 * q - 2) >= 1)


def _share(first: float, second: float, q: int) -> float:
    """(∇fᵀE[ĝ])²/E‖ĝ‖² from ∇fᵀC∇f and ∇fᵀC²∇f, the fraction of Eq. (9); 0 where ĝ = 0."""
    if first <= 0:
        return 0.0
    return first / ((1 - 1 / q) * (second / first) + 1 / q)  # so ordered, first² does not underflow


def _check_square(**squares: float) -> None:
    for name, value in squares.items():
        if not value >= 0:
            raise ValueError(f"got {name} = {value}, expected a number of at least 0; look for NaN in the answers")
