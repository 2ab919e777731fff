"""Where the workers of a pool live, and how messages get there: a crew of processes, of Ray actors, of threads."""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and why."""

    cause: str


class Crew(Protocol):
    """Where workers live: starts them, carries messages, ends them. A worker is whatever `start` returns."""

    def capacity(self) -> int:
        """How many workers there is room for."""

    def start(self) -> Any:
        """A new worker, which says Idle when it is ready."""

    def send(self, worker: Any, message: bytes) -> None:
        """Answer a worker. If it is gone, `receive` will tell."""

    def receive(self, workers: Collection[Any], timeout: float) -> list[tuple[Any, bytes | Lost]]:
        """What any of the workers has said, each at most once, or after some seconds nothing."""

    def end(self, workers: Collection[Any], *, at_once: bool) -> None:
        """Let workers go: at once, or when they have heard that nobody needs them, which takes idle ones a moment."""

    def waiting(self) -> str:
        """What new workers may be waiting for, for a person."""

    def close(self) -> None:
        """Let go of everything else."""


class WorkerState(Enum):
    """What a place's worker does."""

    ABSENT = auto()
    STARTING = auto()
    IDLE = auto()
    BUSY = auto()


@dataclass(eq=False)
class Place:
    """A worker's place in the pool; when the worker is lost another one takes it.

    Attributes:
        tasks: The names of the tasks that it attacks, by index.
        active: How many of them were in its last round.
        failures: Workers lost here since there was an answer.
    """

    worker: Any = None
    state: WorkerState = WorkerState.ABSENT
    tasks: dict[int, str] = field(default_factory=dict)
    active: int = 0
    failures: int = 0

    def vacate(self) -> None:
        """The worker is gone."""
        self.worker, self.state, self.active = None, WorkerState.ABSENT, 0
        self.tasks.clear()
