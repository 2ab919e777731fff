"""The space that priors and random directions span, and what of the gradient lies in it (Cheng et al. 2021).

"On the Convergence of Prior-Guided Zeroth-Order Optimization Algorithms" (NeurIPS 2021). With orthonormal directions
the projection of ∇f onto their span is the sum of slopes times directions: of all that can be made of the same slopes
nothing lies nearer to ∇f.
"""

import torch
from torch import Tensor

from dowse.errors import InputError


def orthonormal(rows: Tensor) -> Tensor:
    """The rows made orthogonal to those before them and brought to length one, (n, *s) -> (m, *s), m ≤ n.

    Rows of zero, and those of which those before them leave only rounding, are left out. Each row is cleared of the
    others twice, because what one pass leaves of a nearly parallel row is orthogonal to a few digits only.
    """
    flat, kept = rows.reshape(len(rows), -1), torch.empty_like(rows.reshape(len(rows), -1))
    least, m = 64 * torch.finfo(rows.dtype).eps, 0
    for row in flat:
        length = torch.linalg.vector_norm(row)
        if not length > 0:
            continue
        row = row / length
        for _ in range(2):
            row = row - (kept[:m] @ row) @ kept[:m]
        rest = torch.linalg.vector_norm(row)
        if rest > least:
            kept[m] = row / rest
            m += 1
    return kept[:m].view(m, *rows.shape[1:])


def projection(displacement: Tensor, rise: Tensor) -> Tensor:
    """The shortest g with displacement @ g = rise: ∇f's projection onto the span of the displacements, as they shrink.

    Args:
        displacement: (n, D), what was added to x; rows may be anything, zero too.
        rise: (n,) float64, what f grew by.

    Returns:
        g, (D,).
    """
    length = torch.linalg.vector_norm(displacement, dim=1, keepdim=True)
    rows = displacement / torch.where(length > 0, length, 1)
    slope = torch.where(length[:, 0] > 0, rise.to(rows) / torch.where(length > 0, length, 1)[:, 0], 0)
    gram = (rows @ rows.T).double().cpu()
    weights = torch.linalg.pinv(gram, hermitian=True, rtol=1e-6) @ slope.double().cpu()
    g: Tensor = weights.to(rows) @ rows
    return g


def objective_span(alpha_square: float, m: int, D: int, q: int) -> float:
    """F: the share of ‖∇f‖² that the projection explains on average, 1 − E‖∇f − ĝ‖²/‖∇f‖², which is E[cos²(∇f, ĝ)].

    m orthonormal priors hold Σα² of it; q directions, uniform in the space orthogonal to them and to each other, hold
    q/(D − m) of the rest on average.

    Args:
        alpha_square: Σα² over the priors, in [0, 1].
        m: How many priors.
        D: The dimension.
        q: How many random directions, at most D − m.
    """
    if not 0 <= alpha_square <= 1:
        raise InputError(f"alpha_square is a share in [0, 1], got {alpha_square}")
    if not (m >= 0 and q >= 0 and D > 0 and m + q <= D):
        raise InputError(f"m priors and q directions must fit into D dimensions, got m={m}, q={q}, D={D}")
    return alpha_square + (1 - alpha_square) * q / (D - m) if q else alpha_square


def prior_share(along: Tensor, beside: Tensor, rest: int) -> float:
    """Σα² as slopes have it, in [0, 1]; 0 where f is flat.

    Args:
        along: The slopes along the orthonormal priors, (m,).
        beside: The slopes along q random directions orthogonal to them, (q,).
        rest: D − m.
    """
    of_priors = float(along.square().sum())
    of_rest = rest * float(beside.square().mean()) if len(beside) else 0.0
    return of_priors / (of_priors + of_rest) if of_priors > 0 else 0.0
