"""Whoever attacks: takes tasks as plain data, drives them against one target, and hands on all that happens."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain

from dowse.core.conversation import Accept
from dowse.core.outcome import Outcome
from dowse.core.reply import Request
from dowse.core.seeds import row_seeds
from dowse.core.task import Task
from dowse.errors import in_words
from dowse.maths.geometry import L2, Linf, contains
from dowse.maths.grid import pixels, towards
from dowse.prepare import Run
from dowse.running.instructions import Instructions
from dowse.running.networks import Networks
from dowse.running.replay import ReplayLog, TaskLog
from dowse.running.tracer import Tracer
from dowse.store.events import Commit, Ended
from dowse.store.row import Row
from dowse.store.traces import pack


def attack_tasks(told: Instructions, tasks: Iterator[Task], commit: Commit, networks: Networks) -> None:
    """Attack the tasks that come, as slots become free, until there are no more.

    Every round's answers are committed before the next question is asked. What `commit` raises ends the attacks where
    they are; nothing answered is lost.
    """
    first = next(tasks, None)
    if first is None:
        return
    worker = _Worker(told, first, commit, networks)
    with closing(worker.run.outcomes(worker.entering(chain([first], tasks)), worker.log, told.share)) as outcomes:
        for outcome in outcomes:
            ended = worker.ended(worker.log.of(outcome.index), outcome)
            commit([*worker.log.close(outcome.index), ended])


class _Worker:
    """One run in this process, made ready for images like those of its first task."""

    def __init__(self, told: Instructions, first: Task, commit: Commit, networks: Networks) -> None:
        self.told, spec = told, told.spec
        surrogates = networks.surrogates(told, first.x.shape[-1])
        self.tracer = Tracer(Accept(spec.accept))
        self.run = Run(
            networks.target(told, first.x),
            spec,
            first.x.to(told.dtype),
            attack=spec.attack,
            surrogate=surrogates[0] if len(surrogates) == 1 else surrogates or None,
            observers=[self.tracer],
        )
        if told.rows_per_pass is not None and spec.batch_size is None:
            self.run.oracle.batch_size = told.rows_per_pass
        self.log = ReplayLog(
            commit,
            self.run.oracle,
            accept=self.run.rules.accept,
            keep=told.log_answers,
            scores=self.run.attack.uses_scores,
        )

    def entering(self, tasks: Iterable[Task]) -> Iterator[Task]:
        for task in tasks:
            task = self.run.checked(replace(task, x=task.x.to(self.told.dtype)))
            self.log.open(task)
            yield task

    def ended(self, log: TaskLog, outcome: Outcome) -> Ended:
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
            cause=None if outcome.cause is None else in_words(outcome.cause),
            verified=outcome.verified,
            refused=outcome.refused,
            queries_until_detected=outcome.queries_until_detected,
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
        key = (rules.seed, task.id, outcome.queries, 1)
        seeds = row_seeds(*key, target=rules.target) if oracle.takes_row_seeds else None
        label = outcome.label if task.target_label is None else task.target_label
        (reply,) = oracle.ask([Request(points, label, seeds)], lambda rows: self.log.reserve([(task, rows[0])]))
        row = replace(
            ended.row,
            sent=ended.row.sent + reply.sent,
            saved_adversarial=None if reply.answer is None else bool(reply.answer.adversarial[0]),
            saved_inside=bool(contains(rules.ball, points, task.x)),
            saved_distance=float(rules.ball.distance(points, task.x)),
            saved_queries=reply.answered,
        )
        return replace(ended, row=row, image=levels)
