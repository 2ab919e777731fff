"""Defences that show less of the scores: rounded probabilities, the best classes alone."""

import torch
from torch import Tensor

from dowse.core.target import TargetLike
from dowse.defences.base import Defence
from dowse.errors import count

NEAR_ONE = 1e-3  # how far from 1 the sum of probabilities may be: half-precision ones are
LEAST = 1e-12  # shown for a probability of zero where logarithms are shown


def are_probabilities(scores: Tensor) -> Tensor:
    """Which rows are probabilities, none negative and their sum one; others are logits: (n, K) -> (n, 1) bool."""
    return (scores >= 0).all(1, keepdim=True) & ((scores.sum(1, keepdim=True) - 1).abs() < NEAR_ONE)


def as_logits(scores: Tensor) -> Tensor:
    """Logits as they are, of probabilities their logarithms: (n, K) -> (n, K)."""
    return torch.where(are_probabilities(scores), scores.clamp_min(LEAST).log(), scores)


def as_probabilities(scores: Tensor) -> Tensor:
    """Probabilities as they are, of logits their softmax: (n, K) -> (n, K)."""
    return torch.where(are_probabilities(scores), scores, scores.softmax(1))


class Rounded(Defence):
    """A classifier whose probabilities are shown with few decimals.

    Of one that answers with logits the logarithms of the rounded probabilities are shown, so that it still answers with
    logits; a probability of zero is shown as half a unit of the last decimal.

    Args:
        net: From points to scores.
        decimals: How many.
    """

    prefix = "round"
    has_gradient = False

    def __init__(self, net: TargetLike, decimals: int = 2) -> None:
        super().__init__(net)
        count(decimals=decimals)
        self.decimals = decimals

    def shown(self, scores: Tensor, seeds: Tensor) -> Tensor:
        """Probabilities rounded: (n, K) -> (n, K)."""
        rounded = as_probabilities(scores).round(decimals=self.decimals)
        return torch.where(are_probabilities(scores), rounded, rounded.clamp_min(0.5 * 10.0**-self.decimals).log())


class TopK(Defence):
    """A classifier that shows its best classes alone; the others share what is left of 1.

    Args:
        net: From points to scores.
        k: How many classes are shown.
    """

    prefix = "top-k"

    def __init__(self, net: TargetLike, k: int = 5) -> None:
        super().__init__(net)
        count(k=k)
        self.k = k

    def shown(self, scores: Tensor, seeds: Tensor) -> Tensor:
        """The k best probabilities, the rest spread evenly over the other classes: (n, K) -> (n, K)."""
        p = as_probabilities(scores)
        if self.k >= p.shape[1]:
            return scores
        best = p.topk(self.k, dim=1)
        rest = (1 - best.values.sum(1, keepdim=True)).clamp_min(0) / (p.shape[1] - self.k)
        known = rest.expand_as(p).scatter(1, best.indices, best.values)
        return torch.where(are_probabilities(scores), known, known.clamp_min(LEAST).log())
