"""What a pool and its workers say to each other, and how it becomes bytes."""

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dowse.running.worker import Order
from dowse.store.events import Event, Job


@dataclass(frozen=True)
class Idle:
    """A worker has nothing to do; the first thing it says, and the last about an order. Begin answers it."""


@dataclass(frozen=True)
class Wants:
    """A worker has a free slot. Given answers it."""


@dataclass(frozen=True)
class Delivers:
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
class Begin:
    """An order for an idle worker, and the first image of it."""

    order: Order
    job: Job


@dataclass(frozen=True)
class Given:
    """The next image, or None when there are no more for now."""

    job: Job | None


@dataclass(frozen=True)
class GoOn:
    """The events are committed."""


@dataclass(frozen=True)
class Stop:
    """Nobody should go on: the worker drops its images where they are and becomes idle."""


@dataclass(frozen=True)
class Spoken:
    """What a worker says, and the warnings that were given there meanwhile."""

    message: Idle | Wants | Delivers | Failed
    warned: tuple[str, ...] = ()


Reply = Begin | Given | GoOn | Stop
Exchange = Callable[[bytes], bytes]
"""A worker's line to the pool: hands over a packed Spoken and waits for the packed Reply."""


def pack(message: Spoken | Reply) -> bytes:
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
