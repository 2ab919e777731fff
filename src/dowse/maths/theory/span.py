"""Several priors and random directions, all orthonormal: what their span explains of the gradient."""

from torch import Tensor

from dowse.errors import InputError


def objective_span(alpha_square: float, m: int, D: int, q: int) -> float:
    """F: the share of ‖∇f‖² that the projection explains on average, 1 − E‖∇f − ĝ‖²/‖∇f‖², which is E[cos²(∇f, ĝ)].

    "On the Convergence of Prior-Guided Zeroth-Order Optimization Algorithms" (Cheng et al., NeurIPS 2021). ĝ is the
    sum of slopes times orthonormal directions, ∇f's projection onto their span: of all that can be made of the same
    slopes nothing lies nearer to ∇f. m orthonormal priors hold Σα² of it; q directions, uniform in the space
    orthogonal to them and to each other, hold q/(D − m) of the rest on average.

    >>> objective_span(0.04, m=1, D=1001, q=50)  # the prior's α², and 50/1000 of the rest
    0.088
    >>> objective_span(0.04, m=1, D=1001, q=0)
    0.04

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

    >>> import torch
    >>> prior_share(torch.tensor([0.5]), torch.tensor([0.5, -0.5]), rest=3)  # a quarter of 0.25 + 3 · 0.25
    0.25
    """
    of_priors = float(along.square().sum())
    of_rest = rest * float(beside.square().mean()) if len(beside) else 0.0
    return of_priors / (of_priors + of_rest) if of_priors > 0 else 0.0
