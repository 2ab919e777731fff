"""What every defence is: a module that changes what the classifier behind it sees, or what is seen of its answer."""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from dowse.core.target import Delivery, Kind, Target, TargetLike, as_target, in_training_mode, kind_of
from dowse.defences.arguments import numbers
from dowse.errors import InputError
from dowse.settings import Outputs

LARGEST_SEED = 2**63 - 1
BEHIND = 0x2545F4914F6CDD1D  # sets apart the draws of a noisy defence that stands behind another one


class Defence(nn.Module, Target):
    """A classifier behind a change of its input, its output or both: points (n, C, H, W) in [0, 1] -> scores (n, K).

    It stands wherever the classifier stood, in training or evaluation mode as that was, and keeps its ways: noise drawn
    per row from the seeds that the oracle gives, rows accounted for one by one (`deliver`). Defences can be stacked.

    Args:
        net: An nn.Module, or whatever else `as_target` takes.
    """

    prefix: ClassVar[str]
    """What stands for it in a spec, in front of what it defends."""
    draws_noise = False
    has_gradient = True
    _behind: Target

    def __init__(self, net: TargetLike) -> None:
        super().__init__()
        self.net, behind = net, as_target(net)
        if behind.detector is not None:
            raise InputError(
                f"{behind.name} remembers the queries of an account as they arrive, so it must stand in front of every "
                f"other defence, got {type(self).__name__} in front of it"
            )
        object.__setattr__(self, "_behind", behind)  # past nn.Module, which has its weights as those of `net` already
        self.training = behind.in_training
        self.takes_row_seeds = self.draws_noise or behind.takes_row_seeds
        self.differentiable = self.has_gradient and behind.differentiable
        self.rows_per_call, self.input_shape = behind.rows_per_call, behind.input_shape
        self.remote, self.steady = behind.remote, behind.steady

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """What the classifier sees of images x, (n, C, H, W), with noise drawn from a seed for each row, (n,) int64."""
        if type(self).shown is Defence.shown:
            raise NotImplementedError("a defence changes what the classifier sees, or what is shown of its scores")
        return x

    def shown(self, scores: Tensor, seeds: Tensor) -> Tensor:
        """What is shown of the classifier's scores, (n, K) -> (n, K), with noise drawn from a seed for each row."""
        return scores

    def forward(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores, (n, K), of points, (n, C, H, W); seeds, (n,) int64, or None to draw them from torch's generator."""
        seeds = self._drawn(points, seeds)
        return self.shown(self._behind(self.transform(points, seeds), self._seeds_behind(seeds)), seeds)

    def deliver(self, points: Tensor, seeds: Tensor | None = None) -> Delivery:
        """Hand over what the classifier sees of points, (n, C, H, W), as it accounts for its rows."""
        seeds = self._drawn(points, seeds)
        delivery = self._behind.deliver(self.transform(points, seeds), self._seeds_behind(seeds))
        return delivery if delivery.scores is None else replace(delivery, scores=self.shown(delivery.scores, seeds))

    @classmethod
    def for_spec(cls, net: TargetLike, argument: str | None) -> Self:
        """`PREFIX`, or `PREFIX:NUMBERS`: those of the constructor in their order; the last may be left out."""
        _, *given = signature(cls).parameters.values()
        return cls(net, *numbers(cls.prefix, argument, [one.default for one in given]))

    def tell_resends(self, tell: Callable[[slice], None]) -> None:
        """As what is behind does."""
        self._behind.tell_resends(tell)

    def expect(self, outputs: Outputs) -> None:
        """As what is behind does."""
        self._behind.expect(outputs)

    def close(self) -> None:
        """Close what is behind."""
        self._behind.close()

    @property
    def form(self) -> str | None:
        """Of what is behind."""
        return self._behind.form

    @property
    def kind(self) -> Kind | None:
        """Of its weights and, if they are a module's, of those behind it."""
        return kind_of(self)

    @property
    def in_training(self) -> bool:
        """Whether it, or a module behind it, is in training mode."""
        return in_training_mode(self)

    def _drawn(self, x: Tensor, seeds: Tensor | None) -> Tensor:
        """A seed for each row, (n,) int64: those given, or of torch's generator."""
        if seeds is not None:
            return seeds
        return torch.randint(LARGEST_SEED, (len(x),)) if self.takes_row_seeds else torch.zeros(len(x)).long()

    def _seeds_behind(self, seeds: Tensor) -> Tensor | None:
        """The seeds that the classifier is called with."""
        return (seeds ^ BEHIND) & LARGEST_SEED if self._behind.takes_row_seeds else None
