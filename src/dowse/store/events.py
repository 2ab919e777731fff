"""What becomes of the tasks of a run, told by whoever attacks to the runner, who commits it: plain data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from dowse.store.row import Row


@dataclass(frozen=True)
class NewAnswer:
    """The target answered a task's question, or failed to: `number` is its place in the log, `block` goes there."""

    index: int
    number: int
    block: bytes


@dataclass(frozen=True)
class Reserved:
    """So many rows of a task are about to be handed to the target: they count as sent from now on, whoever dies."""

    index: int
    rows: int


@dataclass(frozen=True)
class Settled:
    """So many reserved rows of a task are counted elsewhere, in an answer or a row, or were not handed over at all."""

    index: int
    rows: int


@dataclass(frozen=True)
class Restarted:
    """A task starts anew from a place in its log: what stands there and behind it is void.

    Attributes:
        sent: Rows that had been handed to the target for that.
        why: In words, for a person; None if that is what was asked for.
        first: The number of the first answer that is void; 0 if all are.
    """

    index: int
    sent: int
    why: str | None
    first: int = 0


@dataclass(frozen=True)
class Replayed:
    """A task's log was gone through.

    Attributes:
        answers: How many answers were heard again.
        inexact: How many of them were about points that differ in their last bits.
        largest: The largest such difference, root mean square over the rows.
    """

    index: int
    answers: int
    inexact: int
    largest: float


@dataclass(frozen=True)
class Round:
    """Questions were answered while so many tasks were attacked: so many rows, in so many seconds of the target's."""

    active: int
    queries: int
    busy: float


@dataclass(frozen=True)
class Ended:
    """A task ended.

    Attributes:
        row: What became of it; the store adds what only it knows.
        trace: The attack's inner values, packed; see dowse.store.traces.
        image: The adversarial image to be kept, (C, H, W): bit by bit, or as a picture if it is one of 8 bits.
    """

    row: Row
    trace: bytes
    image: Tensor | None = None

    @property
    def index(self) -> int:
        """The task's."""
        return self.row.position


Event = Reserved | Settled | NewAnswer | Restarted | Replayed | Round | Ended
Commit = Callable[[Sequence[Event]], None]
"""Hands events to the runner; they are committed when it returns, and it raises Stopped if nobody should go on.

With a Reserved among them it never does: rows that count as sent are sent, and the round is finished.
"""


class Stopped(Exception):  # noqa: N818 a wish, not an error
    """The run was asked to stop; everything answered so far is committed."""
