"""The transfer-based prior: the surrogate's gradient of f, batched over images."""

from typing import Protocol

import torch
from torch import Tensor, nn

from dowse.losses import Objective
from dowse.oracle import default_batch_size


class Prior(Protocol):
    """Anything that can say in which direction f grows for a model of its own."""

    def gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        """∇f of the surrogate at each image: (n, *s), (n,) -> (n, *s)."""
        ...


class SurrogatePrior:
    """The gradient of f through a white-box surrogate that answers with logits.

    Args:
        net: From points (n, *s) in [0, 1] to logits (n, K).
        objective: The attack's objective; its loss is taken of the surrogate's logits.
        batch_size: The most rows of one forward and backward pass; None chooses by the image's size.
    """

    def __init__(self, net: nn.Module, objective: Objective, batch_size: int | None = None) -> None:
        self.net = net
        self.objective = Objective(objective.loss, "logits", objective.targeted)
        self.batch_size = batch_size

    def gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        """∇f at each row: (n, *s), (n,) -> (n, *s). Rows are independent, so one sum serves them all."""
        rows = self.batch_size or default_batch_size(x)
        parts = range(0, len(x), rows)
        return torch.cat([self._gradient(x[i : i + rows], labels[i : i + rows]) for i in parts])

    def _gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().clone().requires_grad_()
            loss = self.objective.value(self.net(x), labels.to(x.device))
            (gradient,) = torch.autograd.grad(loss.sum(), x)
        return gradient
