"""What every defence is: a module that changes an image before the classifier behind it sees it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

Classifier = Callable[..., Tensor]

INNER = 0x2545F4914F6CDD1D  # told apart from it by this, the seeds of a defence behind another one
POSITIVE = 2**63 - 1


class Defence(nn.Module):
    """A classifier behind a change of its input: points (n, C, H, W) in [0, 1] -> scores (n, K).

    It stands wherever the classifier stood, in training or evaluation mode as that was. A defence that draws noise
    draws it per row, from the seeds that the oracle gives, so that an image's result does not depend on its
    neighbours; defences can be stacked.

    Args:
        net: An nn.Module, or any callable from points to scores.
    """

    draws_noise = False
    has_gradient = True

    def __init__(self, net: Classifier) -> None:
        super().__init__()
        self.net = net
        self.training = bool(getattr(net, "training", False))

    @property
    def takes_row_seeds(self) -> bool:
        """Whether this defence, or one behind it, draws noise per row."""
        return self.draws_noise or bool(getattr(self.net, "takes_row_seeds", False))

    @property
    def differentiable(self) -> bool:
        """Whether gradients pass through this defence and what is behind it."""
        return self.has_gradient and bool(getattr(self.net, "differentiable", True))

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """What the classifier sees of images x, (n, C, H, W), with noise drawn from a seed for each row, (n,) int64."""
        raise NotImplementedError

    def forward(self, x: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores, (n, K), of x, (n, C, H, W); seeds, (n,) int64, or None to draw them from torch's global generator."""
        if not self.takes_row_seeds:
            return self.net(self.transform(x, torch.zeros(len(x), dtype=torch.int64)))
        if seeds is None:
            seeds = torch.randint(POSITIVE, (len(x),))
        seen = self.transform(x, seeds)
        if getattr(self.net, "takes_row_seeds", False):
            return self.net(seen, seeds=(seeds ^ INNER) & POSITIVE)
        return self.net(seen)
