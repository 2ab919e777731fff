"""Whoever listens to a run: observers see everything, an answer log remembers what was paid for."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from dowse.core.flow import Query
from dowse.core.outcome import Outcome
from dowse.core.reply import Reply
from dowse.core.task import Task


class Progress(NamedTuple):
    """A run so far: images ended, fooled and under way, and queries answered."""

    done: int
    fooled: int
    active: int
    queries: int


class Observer:
    """Sees everything and changes nothing; override what you need."""

    def noted(self, task: Task, values: dict[str, float]) -> None:
        """An attack left a note."""

    def answered(self, task: Task, query: Query, reply: Reply) -> None:
        """A question of an attack was answered or failed."""

    def ended(self, outcome: Outcome) -> None:
        """An image ended."""

    def progressed(self, progress: Progress) -> None:
        """A round of questions was answered."""


class AnswerLog(Protocol):
    """Remembers the answers that were paid for, so that an attack can be gone through again without paying.

    `dowse.running.replay` has the one that keeps them in a store.
    """

    def recall(self, task: Task, query: Query) -> Reply | None:
        """What is known of the task's next question; None if that was never asked, or if another one was in its place.

        A reply without an answer says that the question failed once: it is counted, and asked again.
        """

    def reserve(self, asked: Sequence[tuple[Task, int]]) -> None:
        """So many rows of each task are about to be handed to the target: remembered when this returns."""

    def record(self, task: Task, query: Query, reply: Reply) -> None:
        """The target answered the question, or failed to."""

    def commit(self) -> None:
        """Make what was recorded last: no answer reaches an attack, and no question the target, before this returns."""
