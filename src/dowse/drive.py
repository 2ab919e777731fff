"""The scheduler: holds many conversations at once, charges before it asks, and ends who succeeded or cannot pay."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dowse.errors import InputError
from dowse.flow import Flow, Note, PriorAt, Query, Question, check
from dowse.geometry import Ball, contains
from dowse.ledger import Ledger
from dowse.oracle import Oracle, Reply, Request
from dowse.priors import Prior
from dowse.result import End, Outcome
from dowse.seeds import row_seeds, stream


class Accept(StrEnum):
    """Where success is looked for: at iterates, at any row inside the ball, or nowhere."""

    ITERATE = "iterate"
    ANY = "any"
    NEVER = "never"


class Attack(Protocol):
    """A whole attack on one image, from the unchanged image on."""

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Any]:
        """Converse about the image x, (*s), whose loss f is known and paid for."""
        ...


@dataclass(frozen=True)
class Task:
    """One image to attack.

    Attributes:
        index: Its position among the images given.
        id: Its name; with the seed and the method it keys the image's random stream.
        x: The image, (*s) in [0, 1].
        label: Its true label; None takes the target's own with the first query.
        wanted: The class wanted of a targeted attack.
        attack: What to do.
        ball: Where to stay.
        budget: The most queries.
        seed: The run's seed.
        method: The method's name, part of the key of the random stream.
        accept: Where success is looked for.
    """

    index: int
    id: str
    x: Tensor
    label: int | None
    wanted: int | None
    attack: Attack
    ball: Ball
    budget: int
    seed: int
    method: str
    accept: Accept = Accept.ITERATE


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


def drive(
    tasks: Iterable[Task],
    oracle: Oracle,
    prior: Prior | None = None,
    *,
    concurrency: int = 8,
    observers: Sequence[Observer] = (),
) -> Iterator[Outcome]:
    """Attack images, `concurrency` at a time, and yield each outcome as it comes.

    Every round gathers the questions of all conversations, charges the ledger, asks the target once and sends the
    answers back. As an image ends the next one enters, so batches stay full and memory does not grow with the number
    of images.
    """
    if concurrency < 1:
        raise InputError(f"concurrency must be at least 1, got {concurrency}")
    return _Driver(oracle, prior, concurrency, observers).run(iter(tasks))


class _Conversation:
    """One image under attack: its generator, the question it waits on, and the last iterate it showed."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.flow = _opened(task)
        self.question: Question | None = None
        self.label = task.label
        self.opening = True
        self.iterate, self.loss = task.x, math.nan

    def send(self, value: Any) -> tuple[bool, Any]:
        """Go on until the next question; (True, what the flow returned) once it has none."""
        try:
            self.question = self.flow.send(value)
        except StopIteration as stop:
            return True, stop.value
        return False, None


def _opened(task: Task) -> Flow[Any]:
    """Every conversation opens with the image itself: its loss, whether it is wrong already, its label."""
    f = yield from check(task.x)
    rng = stream(task.seed, task.id, task.method)
    return (yield from task.attack.flow(task.x, f, task.ball, rng))


class _Driver:
    def __init__(self, oracle: Oracle, prior: Prior | None, concurrency: int, observers: Sequence[Observer]) -> None:
        self.oracle, self.prior, self.concurrency, self.observers = oracle, prior, concurrency, observers
        self.ledger = Ledger()
        self.active: list[_Conversation] = []
        self.done = self.fooled = self.queries = 0

    def run(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        while True:
            yield from self._admit(tasks)
            if not self.active:
                return
            yield from self._ask_target()
            yield from self._ask_prior()
            for observer in self.observers:
                observer.progressed(Progress(self.done, self.fooled, len(self.active), self.queries))

    def _admit(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        while len(self.active) < self.concurrency and (task := next(tasks, None)) is not None:
            self.ledger.open(task.index, task.budget)
            conversation = _Conversation(task)
            self.active.append(conversation)
            yield from self._advance(conversation, None)

    def _ask_target(self) -> Iterator[Outcome]:
        """One round: whoever can pay is charged, asked for and answered."""
        payers: list[tuple[_Conversation, Query]] = []
        for conversation in list(self.active):
            query = conversation.question
            assert isinstance(query, Query)
            if len(query.points) > self.ledger.remaining(conversation.task.index):
                yield self._end(conversation, End.BUDGET)
            else:
                self.ledger.charge(conversation.task.index, len(query.points))
                payers.append((conversation, query))
        replies = self.oracle.ask([self._request(*payer) for payer in payers])
        for (conversation, query), reply in zip(payers, replies, strict=True):
            task = conversation.task
            self.queries += reply.answered
            self.ledger.settle(task.index, charged=len(query.points), answered=reply.answered, sent=reply.sent)
            for observer in self.observers:
                observer.answered(task, query, reply)
            outcome = self._judge(conversation, query, reply)
            if outcome is not None:
                yield outcome
            else:
                yield from self._advance(conversation, reply.answer)

    def _request(self, conversation: _Conversation, query: Query) -> Request:
        task, n = conversation.task, len(query.points)
        label = conversation.label if task.wanted is None else task.wanted
        seeds = None
        if self.oracle.takes_row_seeds:
            seeds = row_seeds(task.seed, task.id, self.ledger.account(task.index).queries, n)
        return Request(query.points, label, seeds, query.gradient)

    def _judge(self, conversation: _Conversation, query: Query, reply: Reply) -> Outcome | None:
        """Look for an end in an answer; None if the conversation goes on."""
        task, answer = conversation.task, reply.answer
        if answer is None:
            return self._end(conversation, End.TARGET_FAILED, cause=reply.cause)
        if not answer.scores.isfinite().all():
            return self._end(conversation, End.NONFINITE)
        if conversation.opening:
            conversation.opening = False
            conversation.loss = float(answer.loss[0])
            predicted = int(answer.scores[0].argmax())
            conversation.label = predicted if task.label is None else task.label
            already_wrong = predicted != conversation.label or predicted == task.wanted
            if already_wrong and task.accept is not Accept.NEVER:
                return self._end(conversation, End.ALREADY_WRONG)
            return None
        if task.accept is Accept.NEVER:
            return None
        if query.candidate or task.accept is Accept.ANY:
            inside = contains(task.ball, query.points, task.x)
            if query.candidate and inside[-1]:
                conversation.iterate, conversation.loss = query.points[-1].clone(), float(answer.loss[-1])
            found = (inside & answer.adversarial).nonzero()
            if len(found):
                row = int(found[0])
                conversation.iterate, conversation.loss = query.points[row].clone(), float(answer.loss[row])
                return self._end(conversation, End.ADVERSARIAL)
        return None

    def _ask_prior(self) -> Iterator[Outcome]:
        """Answer everyone who waits on the surrogate, all at once, until nobody does."""
        while waiting := [c for c in self.active if isinstance(c.question, PriorAt)]:
            if self.prior is None:
                raise InputError(f"method {waiting[0].task.method!r} asks for a surrogate's gradient: give surrogate=")
            points = torch.stack([c.question.x for c in waiting if isinstance(c.question, PriorAt)])
            labels = torch.tensor([c.label if c.task.wanted is None else c.task.wanted for c in waiting])
            for conversation, gradient in zip(waiting, self.prior.gradient(points, labels), strict=True):
                yield from self._advance(conversation, gradient)

    def _advance(self, conversation: _Conversation, value: Any) -> Iterator[Outcome]:
        """Send an answer, hand on notes, and stop at the next question that needs somebody else."""
        finished, returned = conversation.send(value)
        while not finished and isinstance(conversation.question, Note):
            for observer in self.observers:
                observer.noted(conversation.task, dict(conversation.question.values))
            finished, returned = conversation.send(None)
        if finished:
            yield self._end(conversation, End.EXHAUSTED, value=returned)

    def _end(
        self, conversation: _Conversation, end: End, *, cause: Exception | None = None, value: Any = None
    ) -> Outcome:
        conversation.flow.close()
        self.active.remove(conversation)
        task, account = conversation.task, self.ledger.close(conversation.task.index)
        adversarial = conversation.iterate.detach()
        outcome = Outcome(
            index=task.index,
            id=task.id,
            end=end,
            queries=account.queries,
            sent=account.sent,
            budget=task.budget,
            label=conversation.label,
            adversarial=adversarial,
            distance=float(task.ball.distance(adversarial.unsqueeze(0), task.x)[0]),
            loss=conversation.loss,
            cause=cause,
            value=value,
        )
        self.done += 1
        self.fooled += outcome.success
        for observer in self.observers:
            observer.ended(outcome)
        return outcome
