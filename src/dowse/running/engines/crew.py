"""Where the workers of a pool live, and how messages get there: a crew of processes, of Ray actors, of threads."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and why."""

    cause: str


class Crew(Protocol):
    """Where workers live: starts them, carries messages, ends them. A worker is whatever `start` returns."""

    def capacity(self) -> int:
        """How many workers there is room for."""
        ...

    def start(self) -> Any:
        """A new worker, which says Idle when it is ready."""
        ...

    def send(self, worker: Any, message: bytes) -> None:
        """Answer a worker. If it is gone, `receive` will tell."""
        ...

    def receive(self, workers: Collection[Any], timeout: float) -> list[tuple[Any, bytes | Lost]]:
        """What any of the workers has said, each at most once, or after some seconds nothing."""
        ...

    def end(self, workers: Collection[Any], *, at_once: bool) -> None:
        """Let workers go: at once, or when they have heard that nobody needs them, which takes idle ones a moment."""
        ...

    def waiting(self) -> str:
        """What new workers may be waiting for, for a person."""
        ...

    def close(self) -> None:
        """Let go of everything else."""
        ...
