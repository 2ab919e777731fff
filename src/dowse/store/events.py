"""What goes between the runner, which holds the store, and those who attack: plain data that can cross processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from dowse.core.result import End


@dataclass(frozen=True)
class Job:
    """An image to attack, or to go on attacking.

    Attributes:
        task: Its number in the store.
        id: The image's name for its random stream: a checksum of its pixels and label.
        x: Its pixels, (C, H, W).
        label: Its class; None takes the target's own.
        target_label: The class wanted of a targeted attack.
        budget: The most queries.
        answers: What was paid for already, packed LoggedAnswers in order.
        sent: Rows handed to the target for answers that are void.
        seconds: How long it was under attack before.
    """

    task: int
    id: str
    x: Tensor
    label: int | None
    target_label: int | None
    budget: int
    answers: tuple[bytes, ...] = ()
    sent: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Answered:
    """A question was answered, or failed: `block` is its packed LoggedAnswer, `number` its place in the image's log."""

    task: int
    number: int
    block: bytes


@dataclass(frozen=True)
class Restarted:
    """The image's log did not fit its questions and is void; `sent` rows had been handed over for it.

    Attributes:
        distance: How far the points were from the logged ones, root mean square over the rows.
    """

    task: int
    sent: int
    distance: float


@dataclass(frozen=True)
class Replayed:
    """An image's log was gone through.

    Attributes:
        answers: How many answers were heard again.
        inexact: How many of them were about points that differ in their last bits.
        largest: The largest such difference, root mean square over the rows.
    """

    task: int
    answers: int
    inexact: int
    largest: float


@dataclass(frozen=True)
class Round:
    """A round of questions was answered: by how many images, how many rows, in how many seconds of the target's."""

    active: int
    queries: int
    busy: float


@dataclass(frozen=True)
class Saved:
    """An adversarial image rounded to 8 bits towards the original, and what the target says about it.

    Attributes:
        levels: The rounded image, (C, H, W) uint8.
        adversarial: Whether the target is still fooled; None if it failed to answer.
        inside: Whether it lies in the ball.
        distance: How far it is from the original, in the attack's norm.
        queries: Queries this took, counted apart from the attack's.
    """

    levels: Tensor
    adversarial: bool | None
    inside: bool
    distance: float
    queries: int


@dataclass(frozen=True)
class Ended:
    """An image ended; the attributes are those of the row it leaves.

    Attributes:
        adversarial: The adversarial image, (C, H, W); None on a failure.
        predicted: The target's label of it, or of the last iterate.
        confidence: The probability the target gives that label.
        confidence_before: The probability it gave its label of the original.
        cause: What the target raised.
        verified: How many of the further answers about it that `verify` asked for were adversarial too.
        trace: The attack's inner values, packed; see dowse.store.traces.
        saved: What became of it on the way to a picture file, if that was wanted.
    """

    task: int
    end: End
    queries: int
    sent: int
    budget: int
    label: int | None
    target_label: int | None
    predicted: int | None
    confidence: float | None
    confidence_before: float | None
    l2: float
    linf: float
    loss: float
    seconds: float
    cause: str | None
    adversarial: Tensor | None
    verified: int
    trace: bytes
    saved: Saved | None = None


Event = Answered | Restarted | Replayed | Round | Ended
Deliver = Callable[[Sequence[Event]], None]
"""Hands events to the runner; they are committed when it returns, and it raises Stopped if nobody should go on."""


class Stopped(Exception):  # noqa: N818 a wish, not an error
    """The run was asked to stop; everything answered so far is committed."""
