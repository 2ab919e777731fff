"""What weights make of a surrogate's logits and features: sums whose gradients are those that an attack asks for."""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from dowse.core.flow import Weights
from dowse.errors import InputError


def weighed(values: Tensor, weights: Tensor) -> Tensor:
    """The sum whose gradient at the values is the weights: handed to torch as such, they import sympy, for a second."""
    return (values * weights).sum()


def weighed_sums(chosen: Sequence[Weights], z: Tensor, φ: Tensor) -> list[Tensor]:
    """Of each of m weights, the sum over n rows of aᵀz + bᵀφ; z is (N, K) and φ (N, F), of which the first n count.

    What no row weighs is left out: a sum of zeros would be taken through the network's graph and back.
    """
    m = max(1, *map(pulls, chosen))
    both = ((z, [w.logits for w in chosen]), (φ, [w.features for w in chosen]))
    given = [(values, _stacked(own, values, m)) for values, own in both if any(w is not None for w in own)]
    given = given or [(z, _stacked([], z, m))]
    return [reduce(torch.add, [weighed(values, weights[j]) for values, weights in given]) for j in range(m)]


def pulls(weights: Weights) -> int:
    """How many gradients the weights ask for, m; 0 for one that stands by itself."""
    given = [w for w in weights if w is not None]
    return max((len(w) for w in given if w.ndim == 2), default=0)


def _stacked(weights: Sequence[Tensor | None], like: Tensor, m: int) -> Tensor:
    """The weights of n rows as (m, n, K) like the values they weigh; zero for None and where a row has fewer than m."""
    n, K = like.shape
    stacked = torch.zeros((m, n, K), dtype=like.dtype)
    for i, w in enumerate(weights):
        if w is None:
            continue
        if w.ndim not in (1, 2) or w.shape[-1] != K:
            raise InputError(f"weights must have one number for each of {K} values, got {tuple(w.shape)}")
        stacked[: len(w) if w.ndim == 2 else m, i] = w.to("cpu", like.dtype)
    return stacked.to(like.device)
