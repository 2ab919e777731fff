"""Whoever attacks: takes images as plain data, drives them against one target, and hands on all that happens."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from dowse.core.conversation import Task
from dowse.core.inputs import Image
from dowse.core.reply import Request
from dowse.core.result import Outcome
from dowse.core.seeds import row_seeds
from dowse.core.target import Target, as_target
from dowse.experiment.file import Save
from dowse.experiment.spec import RunSpec
from dowse.maths.geometry import L2, Linf, contains
from dowse.maths.grid import pixels, towards
from dowse.prepare import Run
from dowse.running.answer_log import AnswerLog
from dowse.store.events import Deliver, Ended, Event, Job, Saved
from dowse.store.traces import Tracer
from dowse.surrogates.prior import Surrogate, own_size
from dowse.targets import input_size, open_target, resolve_surrogate


@dataclass(frozen=True, kw_only=True)
class Order:
    """How a run is to be run; plain data, so that it can be given to another process.

    Attributes:
        spec: What is run.
        log_answers: Whether answers are logged.
        save: What becomes of adversarial images; "png" has each rounded and asked about again.
        device: Where torch networks live.
    """

    spec: RunSpec
    log_answers: bool = True
    save: Save = "safetensors"
    device: str = "cpu"

    @property
    def dtype(self) -> torch.dtype:
        """The precision of images and networks."""
        return torch.float64 if self.spec.dtype == "float64" else torch.float32


@dataclass
class Networks:
    """Targets and surrogates by their specs, the last few kept for the next spec."""

    kept: int = 4
    _made: "OrderedDict[tuple[object, ...], Any]" = field(default_factory=OrderedDict)

    def target(self, order: Order) -> Target:
        """The target of a spec."""
        return as_target(self._get(open_target, order.spec.target, order))

    def surrogates(self, order: Order, side: int) -> list[Surrogate] | None:
        """The surrogates of a run for images of a side, each at its own size; None if it has none."""
        run = order.spec
        return [
            Surrogate(
                self._get(resolve_surrogate, spec, order),
                size=own_size(run.surrogate_size or input_size(spec), side),
                class_offset=run.class_offset,
                smooth=run.smooth,
            )
            for spec in run.surrogate
        ] or None

    def close(self) -> None:
        """Let go of them; those that hold a connection close it."""
        while self._made:
            as_target(self._made.popitem()[1]).close()

    def _get(self, make: Callable[[str], Any], spec: str, order: Order) -> Any:
        key = (make.__name__, spec, order.dtype, order.device)
        if key not in self._made:
            self._made[key] = make(spec)
            as_target(self._made[key]).to(order.device, order.dtype)
            while len(self._made) > self.kept:
                as_target(self._made.popitem(last=False)[1]).close()
        self._made.move_to_end(key)
        return self._made[key]


def attack_jobs(order: Order, jobs: Iterator[Job], deliver: Deliver, networks: Networks | None = None) -> None:
    """Attack the images that `jobs` gives, as slots become free, until it gives no more.

    Every round's answers are delivered, and so committed, before the next question is asked. What `deliver` raises
    ends the attacks where they are; nothing answered is lost.
    """
    first = next(jobs, None)
    if first is None:
        return
    networks = networks or Networks()
    surrogates = networks.surrogates(order, first.x.shape[-1])
    worker = _Worker(order, networks.target(order), surrogates, first, deliver)
    worker.work(_chained(first, jobs))


class _Worker:
    def __init__(
        self, order: Order, target: Target, surrogates: list[Surrogate] | None, first: Job, deliver: Deliver
    ) -> None:
        self.order, self.deliver = order, deliver
        self.tracer = Tracer()
        self.tasks: dict[int, Task] = {}
        surrogate = surrogates[0] if surrogates and len(surrogates) == 1 else surrogates
        self.run = Run(target, order.spec, self._pixels(first), surrogate=surrogate, observers=[self.tracer])
        self.journal = AnswerLog(
            deliver,
            self.run.oracle,
            on_restart=self.tracer.forget,
            keep=order.log_answers,
            scores=self.run.attack.uses_scores,
        )

    def work(self, jobs: Iterator[Job]) -> None:
        for outcome in self.run.outcomes(self._admitted(jobs), self.journal):
            job, seconds, events = self.journal.close(outcome.index)
            self.deliver([*events, self._ended(job, outcome, seconds)])
            self.tracer.forget(outcome.index)
            del self.tasks[outcome.index]

    def _admitted(self, jobs: Iterator[Job]) -> Iterator[Task]:
        for job in jobs:
            self.journal.open(job)
            image = Image(self._pixels(job), job.label, job.target_label, job.id)
            task = self.tasks[job.task] = self.run.task(job.task, image)
            yield task

    def _pixels(self, job: Job) -> torch.Tensor:
        return job.x.to(self.order.device, self.order.dtype)

    def _ended(self, job: Job, outcome: Outcome, seconds: float) -> Event:
        task, found = self.tasks[outcome.index], outcome.adversarial.unsqueeze(0)
        before, after = self.tracer.confidence.get(job.task, (None, None))
        return Ended(
            task=job.task,
            end=outcome.end,
            queries=outcome.queries,
            sent=outcome.sent + job.sent,
            budget=outcome.budget,
            label=outcome.label,
            target_label=job.target_label,
            predicted=self.tracer.predicted.get(job.task),
            confidence=after,
            confidence_before=before,
            l2=float(L2(1.0).distance(found, task.x)),
            linf=float(Linf(1.0).distance(found, task.x)),
            loss=outcome.loss,
            seconds=seconds,
            cause=None if outcome.cause is None else f"{type(outcome.cause).__name__}: {outcome.cause}",
            adversarial=outcome.adversarial.cpu() if outcome.success and self.order.save != "none" else None,
            verified=outcome.verified,
            trace=self.tracer.pack(job.task),
            saved=self._asked_again(task, outcome) if outcome.success and self.order.save == "png" else None,
        )

    def _asked_again(self, task: Task, outcome: Outcome) -> Saved:
        """Round the adversarial image to 8 bits towards the original and ask the target about it."""
        levels = towards(outcome.adversarial, task.x)
        points = pixels(levels, task.x).unsqueeze(0)
        seeds = row_seeds(task.seed, task.id, outcome.queries, 1) if self.run.oracle.takes_row_seeds else None
        label = outcome.label if task.wanted is None else task.wanted
        (reply,) = self.run.oracle.ask([Request(points, label, seeds)])
        return Saved(
            levels=levels,
            adversarial=None if reply.answer is None else bool(reply.answer.adversarial[0]),
            inside=bool(contains(task.ball, points, task.x)),
            distance=float(task.ball.distance(points, task.x)),
            queries=reply.answered,
        )


def _chained(first: Job, rest: Iterator[Job]) -> Iterator[Job]:
    yield first
    yield from rest
