"""An observer that keeps what a row and a trace tell about each task: what the target saw, losses and notes."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from dowse.core.conversation import Accept
from dowse.core.flow import Query
from dowse.core.observers import Observer
from dowse.core.reply import Reply
from dowse.core.task import Task
from dowse.wording import rounded


@dataclass
class Traced:
    """What was seen of a task.

    Attributes:
        points: A point an iterate and a note: its loss or its values, and the queries spent by then.
        queries: Rows answered.
        predicted: The target's label of the adversarial image, or of the last iterate.
        confidence: The probability the target gives that label, to six digits.
        confidence_before: The probability it gave its label of the original.
    """

    points: list[dict[str, float]] = field(default_factory=list)
    queries: int = 0
    predicted: int | None = None
    confidence: float | None = None
    confidence_before: float | None = None


class Tracer(Observer):
    """Watches the tasks under attack; `accept` says where success is looked for."""

    def __init__(self, accept: Accept) -> None:
        self.accept = accept
        self._traced: dict[int, Traced] = defaultdict(Traced)

    def noted(self, task: Task, values: Mapping[str, float]) -> None:
        """Keep a note."""
        traced = self._traced[task.index]
        traced.points.append({"queries": traced.queries, **values})

    def answered(self, task: Task, query: Query, reply: Reply) -> None:
        """Keep the loss of an iterate, and what the target takes it for, how surely now and at first."""
        traced = self._traced[task.index]
        traced.queries += reply.answered
        if reply.answer is None or reply.last is None or reply.confidence is None:
            return  # failed, or refused as a whole: nothing new is known
        if query.candidate or (self.accept is Accept.ANY and reply.answer.adversarial.any()):
            traced.predicted, traced.confidence = reply.predicted, rounded(reply.confidence, 6)
            if traced.confidence_before is None:
                traced.confidence_before = traced.confidence
        if query.candidate:
            traced.points.append({"queries": traced.queries, "loss": float(reply.answer.loss[reply.last])})

    def close(self, index: int) -> Traced:
        """A task ended: what was seen of it, which is forgotten."""
        return self._traced.pop(index, Traced())
