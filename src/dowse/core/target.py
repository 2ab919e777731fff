"""The one Target protocol: all that the program asks of what is attacked; and what became of the rows handed to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from dowse.core.answers import Reader
from dowse.core.detection import Detector
from dowse.errors import InputError, count
from dowse.settings import Outputs

Shape = tuple[int, int, int]
DIFFERENT_IN_TRAINING = (_BatchNorm, _DropoutNd)


@dataclass(frozen=True)
class Delivery:
    """One call of a target, accounted for row by row.

    Rows count by themselves, not as a batch: if a target splits a call into several requests and one of them fails for
    good, the rows of the others are answered all the same.

    Attributes:
        scores: (n, K), meaningless in rows that were not answered; None if no row was.
        sent: How often each row was handed over, (n,) int64; a retry hands over again.
        answered: Which rows have their scores, (n,) bool.
        cause: Why some rows have none; None if all were answered.
    """

    scores: Tensor | None
    sent: Tensor
    answered: Tensor
    cause: Exception | None = None

    @classmethod
    def whole(cls, scores: Tensor) -> "Delivery":
        """All rows were handed over once and answered with scores, (n, K)."""
        n = len(scores)
        return cls(scores, torch.ones(n, dtype=torch.int64), torch.ones(n, dtype=torch.bool))

    @classmethod
    def failed(cls, n: int, cause: Exception, *, sent: int = 1) -> "Delivery":
        """All n rows were handed over `sent` times and none was answered."""
        return cls(None, torch.full((n,), sent), torch.zeros(n, dtype=torch.bool), cause)


class Kind(NamedTuple):
    """The element type and the device of a network's weights, which its images must have too."""

    dtype: torch.dtype
    device: torch.device


class Target:
    """What is attacked: points (n, C, H, W) in [0, 1] to scores (n, K).

    This is all that the program asks of a target, with the default of each part. `as_target` makes one of a module or a
    callable, so a target of your own may be a subclass, or any callable that has those of the attributes and methods
    below that differ from the default.

    Attributes:
        takes_row_seeds: Whether it draws noise. It is then given a seed for each row, (n,) int64, and must draw each
            row's noise from that alone, so that an image's result does not depend on its neighbours.
        rows_per_call: How many rows it likes best in one call, where the run does not say (`batch_size=`); None leaves
            it to the image's size.
        differentiable: Whether gradients pass through it.
        input_shape: (C, H, W) of the images it takes, as far as it knows; None if it takes any, or does not say.
        remote: Whether rows leave this machine, so that somebody may pay for each.
        steady: Whether it is a network of this process whose scores of a row depend on how many rows a pass has, in
            their last bits, and on nothing else beside the row. On a CPU it is then asked in passes whose sizes no
            neighbour changes, some of them filled up with copies, which are neither queries nor sent.
        exact: Whether it is steady and no bit of a row of a small image depends on its pass at all, as far as few rows
            share one. Then no pass is filled up with copies.
        calls_at_once: How many calls of `deliver` it answers at the same time, each from a thread of its own. With more
            than one the driver hands over an image's question as it comes and takes up the image when its own answer
            is there, so that no image waits for another's: for who waits for a network, or has a core for each call.
        detector: How the service that it stands for tells queries that are too alike; None if it remembers none. The
            driver refuses what that refuses, before the target is called.
    """

    takes_row_seeds: bool = False
    rows_per_call: int | None = None
    differentiable: bool = False
    input_shape: Shape | None = None
    remote: bool = False
    steady: bool = False
    exact: bool = False
    calls_at_once: int = 1
    detector: Detector | None = None

    def __call__(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores (n, K) of points (n, *s), or the cause why there are none, raised.

        A call of no rows costs nothing: it tells K by its shape, (0, K), or raises, InputError where images of that
        shape can never be answered. Who takes no seeds need not look at them.
        """
        raise NotImplementedError

    def deliver(self, points: Tensor, seeds: Tensor | None = None) -> Delivery:
        """Hand over points, (n, *s); a row that cannot be answered is reported, not raised.

        By default a call hands every row over once and answers all of them or, if it raises, none. A target that sends
        rows again, or in several requests, keeps its own account here.
        """
        return Delivery.whole(checked_scores(self(points, seeds), len(points)))

    def tell_resends(self, tell: Callable[[slice], None]) -> None:
        """From now on `tell` is to be called, in the thread of `deliver`, before it hands rows of its call over again.

        It is told which rows, and what it raises must not be kept from the caller. Who hands every row over once in a
        call need not care; who sends again and does not say so may count too little if it is killed meanwhile.
        """

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Self:
        """Itself, its weights moved, where it has any in this process."""
        return self

    def expect(self, outputs: Outputs) -> None:
        """From now on answers are taken for "logits" or for "probs"; who can answer with either does."""

    def close(self) -> None:
        """Let go of connections."""

    @property
    def form(self) -> str | None:
        """How images go in and scores come out, in words, where that had to be found out; None where nothing had."""
        return None

    @property
    def name(self) -> str:
        """What errors call it."""
        return type(self).__name__

    @property
    def kind(self) -> Kind | None:
        """Of its weights; None if it takes images of any."""
        return None

    @property
    def in_training(self) -> bool:
        """Whether it is in training mode, where dropout and the batch's own statistics change answers."""
        return False


TargetLike = Target | nn.Module | Callable[..., Any]
"""What `as_target` takes."""


def as_target(given: Any) -> Target:
    """A Target of whatever maps points to scores: a Target as it is, a module, or any callable.

    Of the latter two those attributes of Target are read, once, that they have; nobody asks again whether something has
    one. Answers of other forms than tensors (n, K) are read by `core.answers`; models that take other forms than
    tensors (n, C, H, W), or cannot be called, become targets in `dowse.targets.model`.
    """
    if isinstance(given, Target):
        return given
    if not callable(given):
        raise InputError(f"target must be an nn.Module or a callable from points to scores, got {type(given).__name__}")
    return AdaptedTarget(given)


class AdaptedTarget(Target):
    """A module or a callable as a Target; it adds a function call and copies nothing.

    Args:
        given: From points to scores, with any of the attributes of Target.

    Attributes:
        read: Makes scores of answers that are no tensors (n, K).
    """

    def __init__(self, given: Callable[..., Tensor]) -> None:
        self.given, self.read = given, Reader()
        self.module = given if isinstance(given, nn.Module) else None
        self.differentiable = self.module is not None
        for attribute in Target.__annotations__:
            if hasattr(given, attribute):
                setattr(self, attribute, getattr(given, attribute))
        count(calls_at_once=self.calls_at_once)
        self._deliver: Callable[..., Delivery] | None = getattr(given, "deliver", None)
        self._close: Callable[[], None] = getattr(given, "close", super().close)
        self.tell_resends = getattr(given, "tell_resends", super().tell_resends)  # type: ignore[method-assign]

    def __call__(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        answer = self.given(points, seeds=seeds) if self.takes_row_seeds else self.given(points)
        scores: Tensor = self.read(answer, len(points))
        return scores

    def deliver(self, points: Tensor, seeds: Tensor | None = None) -> Delivery:
        if self._deliver is None:
            return super().deliver(points, seeds)
        return self._deliver(points, seeds=seeds) if self.takes_row_seeds else self._deliver(points)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Self:
        if self.module is not None:
            self.module.to(device, dtype)
        return self

    def expect(self, outputs: Outputs) -> None:
        self.read.expects = outputs

    def close(self) -> None:
        self._close()

    @property
    def form(self) -> str | None:
        return f"float NCHW in, {self.read.words} out" if self.read.adapted else None

    @property
    def name(self) -> str:
        return type(self.given).__name__

    @property
    def kind(self) -> Kind | None:
        return None if self.module is None else kind_of(self.module)

    @property
    def in_training(self) -> bool:
        return self.module is not None and in_training_mode(self.module)


def in_training_mode(net: nn.Module) -> bool:
    """Whether a module, or a layer in it whose answers depend on it, is in training mode."""
    return net.training or any(layer.training for layer in net.modules() if isinstance(layer, DIFFERENT_IN_TRAINING))


def kind_of(net: nn.Module) -> Kind | None:
    """The kind of a module's weights; None if it has none."""
    weight = next((p for p in net.parameters() if p.is_floating_point()), None)
    return None if weight is None else Kind(weight.dtype, weight.device)


def checked_scores(scores: object, n: int) -> Tensor:
    """Scores if they are a tensor (n, K), or a TypeError that says what came instead."""
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != n:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise TypeError(f"the target must answer {n} rows with a tensor ({n}, K), got {got}{_remedy(scores)}")
    return scores


def _remedy(answer: object) -> str:
    """How to make scores of what a model answers with, where that is known."""
    if isinstance(answer, Mapping):
        return f": it holds {', '.join(map(repr, answer))}; give lambda x: model(x)[…] with the one that has the scores"
    if _are_labels(answer):
        return ", which look like labels: let it answer with probabilities or logits"
    if isinstance(answer, tuple):
        return ": give lambda x: model(x)[i] with the place i of the scores"
    return ""


def _are_labels(answer: object) -> bool:
    """Whether a model answers with one whole number or word a row."""
    if isinstance(answer, Tensor):
        return answer.ndim == 1 and not answer.is_floating_point()
    try:
        held = np.asarray(answer)
    except (TypeError, ValueError, RuntimeError):  # of rows of different lengths, of tensors that are no numbers
        return False
    return held.ndim == 1 and held.dtype.kind in "biuUS"
