"""The driver's memory of a run: answers from the log, checked before they are believed, and new ones to be logged."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from dowse.core.conversation import Accept, Task
from dowse.core.flow import Query
from dowse.core.observers import Diverged
from dowse.core.oracle import Oracle
from dowse.core.reply import Reply
from dowse.store.events import Answered, Deliver, Event, Job, Replayed, Restarted, Round
from dowse.store.logged_answer import LoggedAnswer
from dowse.store.sketch import distance, sketch

TOLERANCE = 1e-5  # per pixel, root mean square: a tenth of the paper's σ, a four-hundredth of an 8-bit level


@dataclass
class _Log:
    """One image's log: what is left to be heard again, and the account of it."""

    job: Job
    begun: float
    answers: list[LoggedAnswer]
    heard: int = 0
    number: int = 0
    inexact: int = 0
    largest: float = 0.0

    @property
    def seconds(self) -> float:
        return self.job.seconds + monotonic() - self.begun


@dataclass
class AnswerLog:
    """A Journal that hands every answer on and believes a logged one only if it is about the same points.

    Attributes:
        deliver: Where events go; what it returns from is committed.
        oracle: Whose time is measured.
        keep: Whether answers are logged; if not, only the rounds are told.
        scores: Whether the method looks at scores, so that they must be logged too.
        on_restart: Called with an image's task when its log turns out void.
    """

    deliver: Deliver
    oracle: Oracle
    on_restart: Callable[[int], None] = lambda task: None
    keep: bool = True
    scores: bool = False
    _logs: dict[int, _Log] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _queries: int = 0
    _active: int = 0
    _busy: float = 0.0

    def open(self, job: Job) -> None:
        """An image enters with what is known of it."""
        answers = [LoggedAnswer.unpack(block) for block in job.answers] if self.keep else []
        self._logs[job.task] = _Log(job, monotonic(), answers)

    def close(self, task: int) -> tuple[Job, float, list[Event]]:
        """An image ended: its job, how long it took, and what was not handed on yet."""
        log = self._logs.pop(task)
        self._report(log)
        events, self._events = self._events, []
        return log.job, log.seconds, events

    def recall(self, task: Task, query: Query) -> Reply | None:
        """The next answer of the image's log, if it is about these points."""
        log = self._logs[task.index]
        if log.number >= len(log.answers):
            self._report(log)
            return None
        answer = log.answers[log.number]
        asked = sketch(query.points)
        apart = distance(asked, answer.asked)
        allowed = TOLERANCE * math.sqrt(query.points[0].numel())
        if answer.white_box or apart > allowed or math.isnan(apart):
            self._restart(log, apart)
        same = asked.digest == answer.asked.digest
        if not same:
            log.inexact, log.largest = log.inexact + 1, max(log.largest, apart)
        if not same and _would_end(task, query, answer):
            answer = self._unheard(log, answer)
        log.number, log.heard = log.number + 1, log.heard + 1
        return answer.reply()

    def record(self, task: Task, query: Query, reply: Reply) -> None:
        """Log a new answer, or the failure to get one."""
        log = self._logs[task.index]
        self._active, self._queries = self._active + 1, self._queries + reply.answered
        if self.keep:
            answer = LoggedAnswer.of(query, reply, with_scores=self.scores, seconds=log.seconds)
            self._events.append(Answered(task.index, log.number, answer.pack()))
        log.number += 1

    def commit(self) -> None:
        """Hand on a round's answers."""
        busy = self.oracle.busy - self._busy
        self._events.append(Round(self._active, self._queries, busy))
        self._active, self._queries, self._busy = 0, 0, self.oracle.busy
        events, self._events = self._events, []
        self.deliver(events)

    def _restart(self, log: _Log, apart: float) -> None:
        sent = sum(answer.sent for answer in log.answers)
        self._events.append(Restarted(log.job.task, sent, apart))
        log.answers, log.number, log.heard = [], 0, 0
        self.on_restart(log.job.task)
        raise Diverged(sent)

    def _unheard(self, log: _Log, answer: LoggedAnswer) -> LoggedAnswer:
        """An answer turned into a question that must be asked again, here and in the log, with what comes after it."""
        voided = sum(later.sent for later in log.answers[log.number :])
        void = LoggedAnswer(
            asked=answer.asked, sent=voided, answered=0, label=answer.label, predicted=None, confidence=None,
            finite=True, white_box=False, seconds=answer.seconds, loss=None, adversarial=None, scores=None,
        )  # fmt: skip
        log.answers = log.answers[: log.number + 1]
        self._events.append(Answered(log.job.task, log.number, void.pack()))
        return void

    def _report(self, log: _Log) -> None:
        """Tell once what was heard again."""
        if log.heard:
            self._events.append(Replayed(log.job.task, log.heard, log.inexact, log.largest))
            log.heard = 0


def _would_end(task: Task, query: Query, answer: LoggedAnswer) -> bool:
    """Whether the attack would end as a success: that image must be the very one the target was asked about."""
    looked_at = query.candidate or task.accept is Accept.ANY
    return looked_at and answer.adversarial is not None and bool(answer.adversarial.any())
