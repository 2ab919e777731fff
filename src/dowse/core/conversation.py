"""One image under attack: what is to be done with it, and how far the conversation about it has come."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import torch
from torch import Tensor

from dowse.core.flow import Answer, Flow, Opening, Query, Question, check
from dowse.core.seeds import stream
from dowse.maths.geometry import Ball, contains
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
    attack: HasFlow
    ball: Ball
    budget: int
    seed: int
    method: str
    accept: Accept = Accept.ITERATE


class Conversation:
    """One image under attack: its generator, the question it waits on, and the last iterate it showed."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._open()

    def _open(self) -> None:
        self.flow = _opened(self.task)
        self.question: Question | None = None
        self.label = self.task.label
        self.opening = True
        self.first: Answer | None = None
        self.iterate, self.loss = self.task.x, math.nan
        self.turns = 0

    @property
    def goal(self) -> int | None:
        """The label that the objective is about."""
        return self.label if self.task.wanted is None else self.task.wanted

    @property
    def query(self) -> Query:
        """The question to the target that it waits on."""
        assert isinstance(self.question, Query)
        return self.question

    def known(self, objective: Objective, surrogates: int) -> Opening:
        """What `opening` is answered with."""
        assert self.first is not None
        assert self.label is not None
        return Opening(self.first, self.label, self.task.wanted, objective, surrogates)

    def restart(self) -> None:
        """Forget all that was said, and open again."""
        self.flow.close()
        self._open()
        self.send(None)

    def remember(self, query: Query, answer: Answer, row: int) -> bool:
        """Keep a row and its loss if it lies in the ball; whether it does."""
        inside = bool(contains(self.task.ball, query.points[row : row + 1], self.task.x))
        if inside:
            self.iterate, self.loss = query.points[row].clone(), float(answer.loss[row])
        return inside

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
