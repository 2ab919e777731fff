"""What a pool and its workers say to each other, and how it becomes bytes."""

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dowse.core.task import Task
from dowse.running.instructions import Instructions
from dowse.store.events import Event


@dataclass(frozen=True)
class Idle:
    """A worker has nothing to do; the first thing it says, and the last about a run. BeginRun answers it."""


@dataclass(frozen=True)
class WantsTask:
    """A worker has a free slot. NextTask answers it."""


@dataclass(frozen=True)
class Happened:
    """Events, to be committed before the worker goes on. GoOn or Stop answers it."""

    events: Sequence[Event]


@dataclass(frozen=True)
class Failed:
    """A worker cannot go on, and ends; nothing answers it.

    Attributes:
        cause: Why, for a person.
        input_error: Whether what the caller passed is to blame, so that no other worker would fare better.
    """

    cause: str
    input_error: bool


@dataclass(frozen=True)
class BeginRun:
    """A run for an idle worker, and the first task of it."""

    told: Instructions
    task: Task


@dataclass(frozen=True)
class NextTask:
    """The next task, or None when there are no more for now."""

    task: Task | None


@dataclass(frozen=True)
class GoOn:
    """The events are committed."""


@dataclass(frozen=True)
class Stop:
    """Nobody should go on: the worker drops its tasks where they are and becomes idle."""


@dataclass(frozen=True)
class FromWorker:
    """What a worker says, and the warnings that were given there meanwhile."""

    said: Idle | WantsTask | Happened | Failed
    warned: tuple[str, ...] = ()


FromPool = BeginRun | NextTask | GoOn | Stop
Exchange = Callable[[bytes], bytes]
"""A worker's line to the pool: hands over a packed FromWorker and waits for the packed FromPool."""


def pack(message: FromWorker | FromPool) -> bytes:
    """A message as bytes; a tensor takes its own elements only, however large the storage it is a view of."""
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(message)
    return stream.getvalue()


def unpack(packed: bytes) -> Any:
    """The message of `pack`."""
    return pickle.loads(packed)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Tensor):
            return _tensor, (value.detach().cpu().contiguous().numpy(),)
        return NotImplemented


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(array)
