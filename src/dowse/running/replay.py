"""The answer log of a worker: what was answered before is replayed if it fits, what is new is handed on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from dowse.core.conversation import Accept
from dowse.core.flow import Query
from dowse.core.oracle import Oracle
from dowse.core.reply import Reply
from dowse.core.task import Task
from dowse.store.events import Commit, Event, NewAnswer, Replayed, Reserved, Restarted, Round, Settled
from dowse.store.logged_answer import LoggedAnswer, distance, sketch

TOLERANCE = 1e-5  # per pixel, root mean square: a tenth of the paper's σ, a four-hundredth of an 8-bit level


@dataclass
class TaskLog:
    """One task's log: the answers to be heard again, and the account of it.

    Attributes:
        task: The task, as it entered.
        sent: Rows handed to the target, before it entered, for answers that are void or never came.
        reserved: Rows that count as sent in the store already, and in no answer yet.
        opened: Whether the unchanged image has been answered.
        seconds: How long it has been under attack.
    """

    task: Task
    sent: int
    answers: list[LoggedAnswer] = field(default_factory=list)
    begun: float = field(default_factory=monotonic)
    before: float = 0.0
    heard: int = 0
    number: int = 0
    inexact: int = 0
    largest: float = 0.0
    reserved: int = 0
    opened: bool = False

    @property
    def seconds(self) -> float:
        return self.before + monotonic() - self.begun


@dataclass
class ReplayLog:
    """An AnswerLog that hands every answer on and believes a logged one only if it is about the same points.

    Attributes:
        send: Where events go; what it returns from is committed.
        oracle: Whose time is measured.
        accept: Where success is looked for.
        keep: Whether answers are logged; if not, only the rounds are told.
        scores: Whether the method looks at scores, so that they must be logged too. Those of the unchanged image
            always are: they tell the step of the scores, and with it σ.
    """

    send: Commit
    oracle: Oracle
    accept: Accept = Accept.ITERATE
    keep: bool = True
    scores: bool = False
    _logs: dict[int, TaskLog] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _queries: int = 0
    _busy: float = 0.0

    def open(self, task: Task) -> None:
        """A task enters with its past, which is unpacked here and nowhere else; a log that is of no use is void."""
        past = task.past
        answers, damaged = _unpacked(past.answers)
        log = self._logs[task.index] = TaskLog(task, past.sent, answers, before=answers[-1].seconds if answers else 0.0)
        if past.answers and past.image != task.id:
            self._void(log, 0, f"{task.name} is not the image it was: its attack starts anew")
        elif past.answers and not self.keep:
            self._void(log, 0, None)
        elif damaged:
            self._void(log, len(answers), f"the log of {task.name} is damaged: what comes after is asked again")

    def of(self, index: int) -> TaskLog:
        """The log of a task that has not been closed."""
        return self._logs[index]

    def close(self, index: int) -> list[Event]:
        """A task ended, and its row counts all that was sent for it: what was not handed on yet."""
        log = self._logs.pop(index)
        self._report(log)
        self._settle(log, log.reserved)
        events, self._events = self._events, []
        return events

    def recall(self, task: Task, query: Query) -> Reply | None:
        """The next answer of the task's log; if it is about other points, it and all behind it are void."""
        log = self._logs[task.index]
        if log.number >= len(log.answers):
            self._report(log)
            return None
        answer = log.answers[log.number]
        asked = sketch(query.points)
        apart = distance(asked, answer.asked)
        allowed = TOLERANCE * math.sqrt(query.points[0].numel())
        if answer.white_box or apart > allowed or math.isnan(apart):
            rows = sum(later.reply.sent for later in log.answers[log.number :])
            self._void(log, log.number, f"{rows} logged rows of {task.name} are void: it now asks {apart:.1e} off them")
            self._report(log)
            return None
        same = asked.digest == answer.asked.digest
        if not same:
            log.inexact, log.largest = log.inexact + 1, max(log.largest, apart)
        if not same and self._would_end(query, answer.reply):
            answer = self._unheard(log, answer)
        log.number, log.heard = log.number + 1, log.heard + 1
        log.opened = log.opened or answer.reply.answer is not None
        return answer.reply

    def reserve(self, asked: Sequence[tuple[Task, int]]) -> None:
        """Count rows as sent in the store, so that they are if this process ends before they are answered."""
        for task, rows in asked:
            self._logs[task.index].reserved += rows
            self._events.append(Reserved(task.index, rows))
        events, self._events = self._events, []
        self.send(events)

    def record(self, task: Task, query: Query, reply: Reply) -> None:
        """Log a new answer, or the failure to get one."""
        log = self._logs[task.index]
        self._queries += reply.answered
        if self.keep:
            with_scores = self.scores or not log.opened
            answer = LoggedAnswer.of(query, reply, with_scores=with_scores, seconds=log.seconds)
            self._events.append(NewAnswer(task.index, log.number, answer.pack()))
        self._settle(log, log.reserved - (0 if self.keep else reply.sent))
        log.number, log.opened = log.number + 1, log.opened or reply.answer is not None

    def commit(self) -> None:
        """Hand on a round's answers."""
        busy = self.oracle.busy - self._busy
        self._events.append(Round(len(self._logs), self._queries, busy))
        self._queries, self._busy = 0, self._busy + busy
        events, self._events = self._events, []
        self.send(events)

    def _void(self, log: TaskLog, first: int, why: str | None) -> None:
        """Forget a log from an answer on; what had been sent for it stays sent."""
        sent = sum(answer.reply.sent for answer in log.answers[first:])
        self._events.append(Restarted(log.task.index, sent, why, first))
        log.answers, log.sent = log.answers[:first], log.sent + sent

    def _would_end(self, query: Query, reply: Reply) -> bool:
        """Whether the attack would end as a success: that image must be the very one the target was asked about."""
        looked_at = query.candidate or self.accept is Accept.ANY
        return looked_at and reply.answer is not None and bool(reply.answer.adversarial.any())

    def _unheard(self, log: TaskLog, answer: LoggedAnswer) -> LoggedAnswer:
        """An answer turned into a question that must be asked again, here and in the log, with what comes after it."""
        voided = sum(later.reply.sent for later in log.answers[log.number :])
        void = replace(answer, reply=Reply(None, answer.reply.label, voided, 0, cause=None))
        log.answers = log.answers[: log.number + 1]
        self._events.append(NewAnswer(log.task.index, log.number, void.pack()))
        return void

    def _settle(self, log: TaskLog, rows: int) -> None:
        """So many reserved rows are counted elsewhere; nothing is reserved any more."""
        log.reserved = 0
        if rows:
            self._events.append(Settled(log.task.index, rows))

    def _report(self, log: TaskLog) -> None:
        """Tell once what was heard again."""
        if log.heard:
            self._events.append(Replayed(log.task.index, log.heard, log.inexact, log.largest))
            log.heard = 0


def _unpacked(blocks: tuple[bytes, ...]) -> tuple[list[LoggedAnswer], bool]:
    """The answers of a log as far as they can be read, and whether any cannot."""
    answers: list[LoggedAnswer] = []
    for block in blocks:
        try:
            answers.append(LoggedAnswer.unpack(block))
        except ValueError:
            return answers, True
    return answers, False
