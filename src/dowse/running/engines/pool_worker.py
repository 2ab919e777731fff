"""The life of a pool's worker: it says that it is idle, is told a run, attacks task after task, says what happens."""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch

from dowse.core.task import Task
from dowse.errors import InputError
from dowse.machine.cpu import ensure_fast_malloc
from dowse.machine.importing import trust
from dowse.running.engines.messages import (
    BeginRun,
    Exchange,
    Failed,
    FromWorker,
    Happened,
    Idle,
    NextTask,
    Stop,
    WantsTask,
    pack,
    unpack,
)
from dowse.running.networks import Networks
from dowse.running.worker import attack_tasks
from dowse.store.events import Event, Stopped


def serve(exchange: Exchange, warned: list[str]) -> None:
    """Work until the pool is gone, which `exchange` tells by raising, or until something fails, which is said.

    Args:
        exchange: The line to the pool.
        warned: Where warnings gather; they go with the next message.
    """
    line, networks = _Line(exchange, warned), Networks()
    try:
        while True:
            begin = line.say(Idle())
            assert isinstance(begin, BeginRun), begin
            with suppress(Stopped):
                attack_tasks(begin.told, line.tasks(begin.task), line.commit, networks)
    except Exception as error:
        line.fail(error)
    finally:
        networks.close()


def prepare(*, folder: str, path: Sequence[str], threads: int | None) -> list[str]:
    """Make this new process like the one that wants it: working folder, places of modules, memory, torch threads.

    Returns:
        Where warnings gather from now on, instead of being written where nobody may look.
    """
    if os.path.isdir(folder):
        os.chdir(folder)
    sys.path.extend(place for place in path if place not in sys.path)
    trust("*")  # what is run was checked where the run was planned
    ensure_fast_malloc()
    if threads is not None:
        torch.set_num_threads(threads)
    warned: list[str] = []

    def keep(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
        warned.append(f"{category.__name__}: {message}")

    warnings.showwarning = keep
    return warned


class _Line:
    """A worker's side of the conversation with the pool."""

    def __init__(self, exchange: Exchange, warned: list[str]) -> None:
        self.exchange, self.warned = exchange, warned

    def say(self, message: Idle | WantsTask | Happened | Failed) -> Any:
        """Say something and hear the reply."""
        warned = tuple(self.warned)
        del self.warned[: len(warned)]
        return unpack(self.exchange(pack(FromWorker(message, warned))))

    def tasks(self, first: Task) -> Iterator[Task]:
        """Tasks until the pool has no more."""
        task: Task | None = first
        while task is not None:
            yield task
            given = self.say(WantsTask())
            assert isinstance(given, NextTask), given
            task = given.task

    def commit(self, events: Sequence[Event]) -> None:
        """As events.Commit."""
        if isinstance(self.say(Happened(events)), Stop):
            raise Stopped

    def fail(self, error: Exception) -> None:
        """Say why this worker ends."""
        if isinstance(error, InputError):
            self.say(Failed(str(error), input_error=True))
            return
        place = traceback.extract_tb(error.__traceback__)[-1]
        cause = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}, line {place.lineno})"
        self.say(Failed(cause, input_error=False))
