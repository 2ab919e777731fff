"""Whoever attacks: takes tasks as plain data, drives them against one target, and hands on all that happens."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch

from dowse.core.conversation import Accept
from dowse.core.reply import Request
from dowse.core.result import Outcome
from dowse.core.seeds import row_seeds
from dowse.core.target import Target, as_target
from dowse.core.task import Task
from dowse.experiment.file import Save
from dowse.experiment.spec import RunSpec
from dowse.maths.geometry import L2, Linf, contains
from dowse.maths.grid import pixels, towards
from dowse.prepare import Run
from dowse.running.replay import ReplayLog, TaskLog
from dowse.running.tracer import Tracer
from dowse.store.events import Commit, Ended
from dowse.store.row import Row
from dowse.store.traces import pack
from dowse.surrogates.prior import Surrogate, own_size
from dowse.targets import input_size, open_target, resolve_surrogate


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """What a worker is told about a run, the same for all its tasks; plain data that can cross processes.

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

    def target(self, told: Instructions) -> Target:
        """The target of a run."""
        return as_target(self._get(open_target, told.spec.target, told))

    def surrogates(self, told: Instructions, side: int) -> list[Surrogate] | None:
        """The surrogates of a run for images of a side, each at its own size; None if it has none."""
        run = told.spec
        return [
            Surrogate(
                self._get(resolve_surrogate, spec, told),
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

    def _get(self, make: Callable[[str], Any], spec: str, told: Instructions) -> Any:
        key = (make.__name__, spec, told.dtype, told.device)
        if key not in self._made:
            self._made[key] = make(spec)
            as_target(self._made[key]).to(told.device, told.dtype)
            while len(self._made) > self.kept:
                as_target(self._made.popitem(last=False)[1]).close()
        self._made.move_to_end(key)
        return self._made[key]


def attack_tasks(told: Instructions, tasks: Iterator[Task], commit: Commit, networks: Networks) -> None:
    """Attack the tasks that come, as slots become free, until there are no more.

    Every round's answers are committed before the next question is asked. What `commit` raises ends the attacks where
    they are; nothing answered is lost.
    """
    first = next(tasks, None)
    if first is not None:
        _Worker(told, first, commit, networks).work(chain([first], tasks))


class _Worker:
    """One run in this process, made ready for images like those of its first task."""

    def __init__(self, told: Instructions, first: Task, commit: Commit, networks: Networks) -> None:
        self.told, self.commit, spec = told, commit, told.spec
        surrogates = networks.surrogates(told, first.x.shape[-1])
        self.tracer = Tracer(Accept(spec.accept))
        self.run = Run(
            networks.target(told),
            spec,
            first.x.to(told.device, told.dtype),
            surrogate=surrogates[0] if surrogates and len(surrogates) == 1 else surrogates,
            observers=[self.tracer],
        )
        self.log = ReplayLog(
            commit,
            self.run.oracle,
            accept=self.run.rules.accept,
            on_restart=self.tracer.close,
            keep=told.log_answers,
            scores=self.run.attack.uses_scores,
        )

    def work(self, tasks: Iterable[Task]) -> None:
        for outcome in self.run.outcomes(self._entering(tasks), self.log):
            log, events = self.log.close(outcome.index)
            self.commit([*events, self._ended(log, outcome)])

    def _entering(self, tasks: Iterable[Task]) -> Iterator[Task]:
        for task in tasks:
            task = self.run.checked(replace(task, x=task.x.to(self.told.device, self.told.dtype)))
            self.log.open(task)
            yield task

    def _ended(self, log: TaskLog, outcome: Outcome) -> Ended:
        task, found, spec = log.task, outcome.adversarial.unsqueeze(0), self.told.spec
        traced = self.tracer.close(task.index)
        row = Row(
            run=spec.id,
            position=task.index,
            name=task.name,
            checksum=task.id,
            end=outcome.end,
            queries=outcome.queries,
            sent=outcome.sent + log.sent,
            budget=outcome.budget,
            label=outcome.label,
            target_label=task.target_label,
            predicted=traced.predicted,
            confidence=traced.confidence,
            confidence_before=traced.confidence_before,
            l2=float(L2(1.0).distance(found, task.x)),
            linf=float(Linf(1.0).distance(found, task.x)),
            loss=outcome.loss,
            seconds=log.seconds,
            seed=spec.seed,
            cause=None if outcome.cause is None else f"{type(outcome.cause).__name__}: {outcome.cause}",
            verified=outcome.verified,
        )
        trace = pack(traced.points)
        if not outcome.success or self.told.save == "none":
            return Ended(row, trace)
        if self.told.save == "png":
            return self._asked_again(Ended(row, trace), task, outcome)
        return Ended(row, trace, outcome.adversarial.cpu())

    def _asked_again(self, ended: Ended, task: Task, outcome: Outcome) -> Ended:
        """Round the adversarial image to 8 bits towards the original and ask the target about it."""
        levels, rules, oracle = towards(outcome.adversarial, task.x), self.run.rules, self.run.oracle
        points = pixels(levels, task.x).unsqueeze(0)
        seeds = row_seeds(rules.seed, task.id, outcome.queries, 1) if oracle.takes_row_seeds else None
        label = outcome.label if task.target_label is None else task.target_label
        (reply,) = oracle.ask([Request(points, label, seeds)])
        row = replace(
            ended.row,
            saved_adversarial=None if reply.answer is None else bool(reply.answer.adversarial[0]),
            saved_inside=bool(contains(rules.ball, points, task.x)),
            saved_distance=float(rules.ball.distance(points, task.x)),
            saved_queries=reply.answered,
        )
        return replace(ended, row=row, image=levels)
