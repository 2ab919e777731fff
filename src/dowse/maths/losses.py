"""The attack's objective f: what the target's scores say about how wrong it is, and whether it is fooled."""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from dowse.errors import choose
from dowse.settings import LossName, Outputs


@dataclass(frozen=True)
class Objective:
    """f of Eq. (2), to be increased, and the verdict that ends an attack.

    Attributes:
        loss: "ce", the cross-entropy, or "margin", the best other class's log-score minus the label's.
        outputs: Whether scores are "logits" or "probs".
        targeted: If True the labels are the wanted classes, and f is minus the loss of the wanted class.

    >>> scores, label = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0])
    >>> Objective("margin").value(scores, label), Objective("margin").adversarial(scores, label)
    (tensor([-1.]), tensor([False]))
    >>> Objective("ce").value(scores, label)  # −log of the label's probability
    tensor([0.4076])
    >>> Objective("ce", "probs").value(scores.softmax(1), label)
    tensor([0.4076])
    >>> Objective("margin", targeted=True).value(scores, torch.tensor([2]))  # f grows with the wanted class
    tensor([-2.])
    """

    loss: LossName = "ce"
    outputs: Outputs = "logits"
    targeted: bool = False

    def __post_init__(self) -> None:
        choose("loss", self.loss, get_args(LossName))
        choose("outputs", self.outputs, get_args(Outputs))

    def value(self, scores: Tensor, labels: Tensor) -> Tensor:
        """f of each row: scores (n, K), labels (n,) -> (n,)."""
        log_scores = scores if self.outputs == "logits" else scores.clamp_min(torch.finfo(scores.dtype).tiny).log()
        if self.loss == "ce":
            if self.outputs == "logits":
                log_scores = log_scores.log_softmax(1)
            loss = -_pick(log_scores, labels)
        else:
            others = log_scores.scatter(1, labels.unsqueeze(1), -torch.inf).amax(1)
            loss = others - _pick(log_scores, labels)
        return -loss if self.targeted else loss

    def slope(self, scores: Tensor, labels: Tensor) -> Tensor:
        """∂f/∂scores of each row: scores (n, K), labels (n,) -> (n, K). Best others that are equal share theirs.

        That of a logits' margin is written down. Any other is left to autograd, whose routine does one row like
        another: torch.exp of many rows does the last elements otherwise, and a row would depend on its neighbours.
        """
        if self.loss == "margin" and self.outputs == "logits":
            others = scores.scatter(1, labels.unsqueeze(1), -torch.inf)
            best = (others == others.amax(1, keepdim=True)).to(scores)
            slope = (best / best.sum(1, keepdim=True)).scatter(1, labels.unsqueeze(1), -1.0)
            return -slope if self.targeted else slope
        with torch.enable_grad():
            scores = scores.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.value(scores, labels).sum(), scores)
        return slope

    def probabilities(self, scores: Tensor) -> Tensor:
        """Scores (n, K) as the probabilities they stand for, (n, K)."""
        return scores.softmax(1) if self.outputs == "logits" else scores

    def adversarial(self, scores: Tensor, labels: Tensor) -> Tensor:
        """C(x) ≠ y of Eq. (1), or C(x) = the wanted class: scores (n, K), labels (n,) -> (n,) bool."""
        predicted = scores.argmax(1)
        return predicted == labels if self.targeted else predicted != labels


def _pick(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(1, labels.unsqueeze(1)).squeeze(1)
