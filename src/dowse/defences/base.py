"""What every defence is: a module that changes an image before the classifier behind it sees it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dowse.core.target import Delivery

Classifier = Callable[..., Tensor]

LARGEST_SEED = 2**63 - 1
BEHIND = 0x2545F4914F6CDD1D  # sets apart the draws of a noisy defence that stands behind another one


class Defence(nn.Module):
    """A classifier behind a change of its input: points (n, C, H, W) in [0, 1] -> scores (n, K).

    It stands wherever the classifier stood, in training or evaluation mode as that was, and keeps its ways: noise drawn
    per row from the seeds that the oracle gives, rows accounted for one by one (`deliver`). Defences can be stacked.

    Args:
        net: An nn.Module, or any callable from points to scores.
    """

    draws_noise = False
    has_gradient = True

    def __init__(self, net: Classifier) -> None:
        super().__init__()
        self.net = net
        self.training = bool(getattr(net, "training", False))

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """What the classifier sees of images x, (n, C, H, W), with noise drawn from a seed for each row, (n,) int64."""
        raise NotImplementedError

    @property
    def takes_row_seeds(self) -> bool:
        """Whether this defence, or one behind it, draws noise per row."""
        return self.draws_noise or self._net_takes_row_seeds

    @property
    def differentiable(self) -> bool:
        """Whether gradients pass through this defence and what is behind it."""
        return self.has_gradient and bool(getattr(self.net, "differentiable", True))

    @property
    def rows_per_call(self) -> int | None:
        """How many rows what is behind likes best in one call; None if it does not say."""
        rows: int | None = getattr(self.net, "rows_per_call", None)
        return rows

    def forward(self, x: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores, (n, K), of x, (n, C, H, W); seeds, (n,) int64, or None to draw them from torch's global generator."""
        seen, more = self._passed_on(x, seeds)
        return self.net(seen, **more)

    @property
    def deliver(self) -> Callable[..., Delivery]:
        """Hands rows over to a classifier that accounts for them itself; there is none if that does not."""
        deliver: Callable[..., Delivery] | None = getattr(self.net, "deliver", None)
        if deliver is None:
            raise AttributeError("what is behind this defence does not account for its rows")

        def through(points: Tensor, seeds: Tensor | None = None) -> Delivery:
            seen, more = self._passed_on(points, seeds)
            return deliver(seen, **more)

        return through

    @property
    def _net_takes_row_seeds(self) -> bool:
        return bool(getattr(self.net, "takes_row_seeds", False))

    def _passed_on(self, x: Tensor, seeds: Tensor | None) -> tuple[Tensor, dict[str, Any]]:
        """What the classifier is called with."""
        if seeds is None:
            seeds = torch.randint(LARGEST_SEED, (len(x),)) if self.takes_row_seeds else torch.zeros(len(x)).long()
        seen = self.transform(x, seeds)
        return seen, {"seeds": (seeds ^ BEHIND) & LARGEST_SEED} if self._net_takes_row_seeds else {}
