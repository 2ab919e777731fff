"""The conversation about one task: how far it has come, and the rules it shares with all others of its run."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dowse.core.detection import Memory
from dowse.core.flow import Answer, Begin, Flow, Look, Note, Opening, PriorAt, Pull, Query, Question, check
from dowse.core.reply import Reply
from dowse.core.seeds import stream
from dowse.core.task import Task
from dowse.errors import InputError
from dowse.maths.geometry import Ball, copies_inside
from dowse.maths.losses import Objective


class Accept(StrEnum):
    """Where success is looked for: at iterates, at any row inside the ball, or nowhere."""

    ITERATE = "iterate"
    ANY = "any"
    NEVER = "never"


class HasFlow(Protocol):
    """What the driver needs of an attack; the whole contract is `dowse.attacks.base.Attack`."""

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Any]:
        """Converse about the image x, (*s), whose loss f is known and paid for."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What holds for every task of a run.

    Attributes:
        attack: What to do.
        method: Its name, part of the key of each task's random stream.
        ball: Where to stay.
        budget: The most queries a task may cost.
        seed: The run's seed.
        accept: Where success is looked for.
        repeats: For a target that draws noise: how often every row is asked, each time paid for; the mean answers.
        verify: How often an adversarial image is asked about again, which is no part of its queries.
        target: The target's name where it is a part of that key too; else "".
    """

    attack: HasFlow
    method: str
    ball: Ball
    budget: int
    seed: int
    accept: Accept
    repeats: int
    verify: int
    target: str = ""


class Heard(NamedTuple):
    """What was answered about the last iterate: f there, and its scores, (K,)."""

    loss: float
    scores: Tensor


class Conversation:
    """What is said about one task: its generator, the question it waits on, and the last iterate it showed.

    Where the target has a detector, `memory` is what that remembers of this conversation's account.

    Attributes:
        question: What it waits on.
        cost: Queries of that, where it is a question to the target: its rows, each as often as the rules repeat them.
    """

    def __init__(self, task: Task, rules: Rules, memory: Memory | None = None) -> None:
        self.task, self.rules, self.memory = task, rules, memory
        self.heard: Heard | None = None
        self.flow = _opened(self.task, self.rules)
        self.question: Question | None = None
        self._query: Query | None = None
        self.cost = 0
        self.label = self.task.label
        self.opening = True
        self.first: Answer | None = None
        self.iterate, self.loss = self.task.x, math.nan
        self.turns = 0

    @property
    def goal(self) -> int | None:
        """The label that the objective is about."""
        return self.label if self.task.target_label is None else self.task.target_label

    @property
    def query(self) -> Query:
        """The question to the target that it waits on."""
        assert self._query is not None
        return self._query

    def known(self, objective: Objective, surrogates: int) -> Opening:
        """What `opening` is answered with."""
        assert self.first is not None
        assert self.label is not None
        return Opening(self.first, self.label, self.task.target_label, objective, surrogates)

    def hear(self, reply: Reply) -> None:
        """Keep what was said about an iterate, for rows that are refused later."""
        if self.memory is not None and self.query.candidate and reply.answer is not None:
            row = reply.last or 0
            self.heard = Heard(float(reply.answer.loss[row]), reply.answer.scores[row])

    def remember(self, iterate: Tensor, answer: Answer, row: int) -> None:
        """Keep an iterate that lies in the ball, (*s), and what was answered about that row."""
        self.iterate, self.loss = iterate, answer.loss.tolist()[row]

    def remembers(self, answer: Answer, row: int) -> bool:
        """Keep a row of the question answered if it lies in the ball; whether it does."""
        (inside,) = copies_inside(self.rules.ball, [self.query.points[row]], [self.task.x])
        if inside is not None:
            self.remember(inside, answer, row)
        return inside is not None

    def send(self, value: Any) -> tuple[bool, Any]:
        """Go on until the next question; (True, what the flow returned) once it has none."""
        try:
            self.question = question = self.flow.send(value)
        except StopIteration as stop:
            return True, stop.value
        self._query = question if isinstance(question, Query) else None
        self.cost = 0 if self._query is None else self.rules.repeats * self._query.points.shape[0]
        if not self.cost and not isinstance(question, PriorAt | Look | Pull | Begin | Note):
            raise TypeError(
                f"method {self.rules.method!r} must yield a Query of at least one row, a PriorAt, Look, Pull, "
                f"Begin or Note, got {question!r}; see docs/extending.md"
            )
        return False, None


def _opened(task: Task, rules: Rules) -> Flow[Any]:
    """Every conversation opens with the image itself: its loss, whether it is wrong already, its label."""
    f = yield from check(task.x)
    rng = stream(rules.seed, task.id, rules.method, rules.target)
    flow = rules.attack.flow(task.x, f, rules.ball, rng)
    if not isinstance(flow, Generator):
        raise InputError(
            f"flow of {rules.method} must be a generator (yield …), it returned {flow!r}; see docs/extending.md"
        )
    return (yield from flow)
