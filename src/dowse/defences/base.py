"""What every defence is: a module that changes an image before the classifier behind it sees it."""

import torch
from torch import Tensor, nn

from dowse.core.target import Delivery, Kind, Target, TargetLike, as_target, in_training_mode, kind_of

LARGEST_SEED = 2**63 - 1
BEHIND = 0x2545F4914F6CDD1D  # sets apart the draws of a noisy defence that stands behind another one


class Defence(nn.Module, Target):
    """A classifier behind a change of its input: points (n, C, H, W) in [0, 1] -> scores (n, K).

    It stands wherever the classifier stood, in training or evaluation mode as that was, and keeps its ways: noise drawn
    per row from the seeds that the oracle gives, rows accounted for one by one (`deliver`). Defences can be stacked.

    Args:
        net: An nn.Module, or whatever else `as_target` takes.
    """

    draws_noise = False
    has_gradient = True
    _behind: Target

    def __init__(self, net: TargetLike) -> None:
        super().__init__()
        self.net, behind = net, as_target(net)
        object.__setattr__(self, "_behind", behind)  # past nn.Module, which has its weights as those of `net` already
        self.training = behind.in_training
        self.takes_row_seeds = self.draws_noise or behind.takes_row_seeds
        self.differentiable = self.has_gradient and behind.differentiable
        self.rows_per_call, self.input_shape = behind.rows_per_call, behind.input_shape
        self.remote = behind.remote

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """What the classifier sees of images x, (n, C, H, W), with noise drawn from a seed for each row, (n,) int64."""
        raise NotImplementedError

    def forward(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores, (n, K), of points, (n, C, H, W); seeds, (n,) int64, or None to draw them from torch's generator."""
        return self._behind(*self._passed_on(points, seeds))

    def deliver(self, points: Tensor, seeds: Tensor | None = None) -> Delivery:
        """Hand over what the classifier sees of points, (n, C, H, W), as it accounts for its rows."""
        return self._behind.deliver(*self._passed_on(points, seeds))

    def close(self) -> None:
        """Close what is behind."""
        self._behind.close()

    @property
    def kind(self) -> Kind | None:
        """Of its weights and, if they are a module's, of those behind it."""
        return kind_of(self)

    @property
    def in_training(self) -> bool:
        """Whether it, or a module behind it, is in training mode."""
        return in_training_mode(self)

    def _passed_on(self, x: Tensor, seeds: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What the classifier is called with."""
        if seeds is None:
            seeds = torch.randint(LARGEST_SEED, (len(x),)) if self.takes_row_seeds else torch.zeros(len(x)).long()
        seen = self.transform(x, seeds)
        return seen, (seeds ^ BEHIND) & LARGEST_SEED if self._behind.takes_row_seeds else None
