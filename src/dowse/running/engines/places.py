"""The places of a pool: who is there, and what that worker attacks."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class State(Enum):
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
    state: State = State.ABSENT
    tasks: dict[int, str] = field(default_factory=dict)
    active: int = 0
    failures: int = 0

    def vacate(self) -> None:
        """The worker is gone."""
        self.worker, self.state, self.active = None, State.ABSENT, 0
        self.tasks.clear()
