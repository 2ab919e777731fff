"""An engine of several workers: one queue of tasks, one store, and whoever is lost is made up for.

The pool lives in the runner's process and remembers only who attacks what; all else that is known of a task is in the
store. Where its workers live, and how messages get there, is a Crew's affair.
"""

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from dowse.core.packing import MANY
from dowse.core.target import Shape
from dowse.core.task import Task
from dowse.errors import InputError, WorkerFailedError, count
from dowse.running.engines.base import Engine, Tell, Work, tell_by_warning
from dowse.running.engines.crew import Crew, Lost, Place, WorkerState
from dowse.running.engines.messages import (
    BeginRun,
    Failed,
    FromPool,
    FromWorker,
    GoOn,
    Happened,
    Idle,
    NextTask,
    Stop,
    WantsTask,
    pack,
    unpack,
)
from dowse.running.instructions import Instructions
from dowse.store.events import Ended, Event, NewAnswer, Reserved, Round
from dowse.targets import input_shape

ATTEMPTS = 3  # so many workers lost on the same task, or in the same place, with no answer in between, end a run
TICK = 1.0  # seconds of silence after which the runner is asked whether to go on
PATIENCE = 60.0  # seconds without any worker after which somebody should know why


class Pool(Engine):
    """An Engine whose attacks take place in the workers of a crew.

    Args:
        crew: Where they live.
        workers: How many; None is as many as there is room for.
        tell: Told what a person should know.
    """

    def __init__(self, crew: Crew, workers: int | None = None, tell: Tell = tell_by_warning) -> None:
        if workers is not None:
            count(workers=workers)
        self.crew, self.workers, self.tell = crew, workers, tell
        self._places: list[Place] = []

    def run(self, told: Instructions, work: Work) -> None:
        """As Engine.run; the workers stay for the next run."""
        if not self._places:
            self._places = [Place() for _ in range(self.workers or self.crew.capacity())]
        places = len(self._places)
        try:
            share = -(-work.waiting(MANY * places) // places)
            _Turn(self.crew, self._places, replace(told, share=share), work, self.tell).run()
        except BaseException:
            self._end(WorkerState.STARTING, WorkerState.BUSY, at_once=True)
            raise

    def input_shape(self, spec: str) -> Shape | None:
        """As Engine.input_shape, asked in the runner's process."""
        return input_shape(spec)

    def close(self) -> None:
        """End all workers."""
        self._end(WorkerState.STARTING, WorkerState.BUSY, at_once=True)
        self._end(WorkerState.IDLE, at_once=False)
        self.crew.close()

    def _end(self, *states: WorkerState, at_once: bool) -> None:
        places = [place for place in self._places if place.state in states]
        workers = [place.worker for place in places]
        for place in places:
            place.vacate()
        if workers:
            self.crew.end(workers, at_once=at_once)


@dataclass
class _Turn:
    """One run in the pool. From the first error on nobody gets a new task, and everyone may finish the round.

    Attributes:
        attempts: Workers that were lost with each task since its last answer, by index.
        drained: Whether there was no task when one was last wanted; nobody asks again until one is given back.
        alone_since: Since when there is no worker.
    """

    crew: Crew
    places: Sequence[Place]
    told: Instructions
    work: Work
    tell: Tell
    error: Exception | None = None
    attempts: Counter[int] = field(default_factory=Counter)
    drained: bool = False
    alone_since: float | None = None

    def run(self) -> None:
        while True:
            if self.error is None:
                self._assign()
            if not self._in(WorkerState.BUSY) and (self.error is not None or not self._left()):
                break
            self._hear()
        if self.error is not None:
            raise self.error

    def _in(self, *states: WorkerState) -> list[Place]:
        return [place for place in self.places if place.state in states]

    def _left(self) -> bool:
        """Whether tasks wait though nobody is busy: for a worker that starts, or since another process gave them up."""
        self.drained = not self.work.waiting(1)
        return not self.drained

    def _assign(self) -> None:
        """Give every idle worker a task, and start as many workers as there is work for."""
        for place in self._in(WorkerState.IDLE):
            if (task := self._take(place)) is not None:
                place.state = WorkerState.BUSY
                self._send(place, BeginRun(self.told, task))
        absent = self._in(WorkerState.ABSENT)
        if not absent or self.drained or self.error is not None:
            return
        try:
            wanted = self.work.waiting(len(self.places)) - len(self._in(WorkerState.STARTING))
            for place in absent[: max(0, wanted)]:
                place.worker, place.state = self.crew.start(), WorkerState.STARTING
        except Exception as error:
            self.error = error

    def _take(self, place: Place) -> Task | None:
        """The next task, for a worker; None if there is none."""
        if self.drained or self.error is not None:
            return None
        try:
            task = self.work.take()
        except Exception as error:
            self.error = error
            return None
        self.drained = task is None
        if task is not None:
            place.tasks[task.index] = task.name
        return task

    def _hear(self) -> None:
        present = {id(place.worker): place for place in self.places if place.state is not WorkerState.ABSENT}
        heard = self.crew.receive([place.worker for place in present.values()], TICK)
        for worker, message in heard:
            place = present[id(worker)]
            if isinstance(message, Lost):
                self._lost(place, message.cause)
            else:
                self._answer(place, unpack(message))
        if not heard:
            self._commit([])
        self._complain()

    def _answer(self, place: Place, message: FromWorker) -> None:
        for text in message.warned:
            self.tell(f"a worker warns: {text}")
        match message.said:
            case Idle():
                place.state, place.active = WorkerState.IDLE, 0
                place.tasks.clear()
            case WantsTask():
                self._send(place, NextTask(self._take(place)))
            case Happened(events):
                committed = self._happened(place, events)
                asking = any(isinstance(event, Reserved) for event in events)
                self._send(place, GoOn() if committed and (asking or self.error is None) else Stop())
            case Failed(cause, input_error):
                if input_error:
                    self.error = self.error or InputError(cause)
                self._lost(place, cause)

    def _happened(self, place: Place, events: Sequence[Event]) -> bool:
        """Commit a worker's events, as told of the whole pool: the tasks of all workers, the mean worker's target.

        Whether nothing was raised: a worker that asks whether its rows may go gets to send them even if the run is to
        end, since everyone finishes the round, but not if they could not be counted.
        """
        told: list[Event] = []
        for event in events:
            match event:
                case Round():
                    place.active, place.failures = event.active, 0
                    there = len(self._in(WorkerState.IDLE, WorkerState.BUSY))
                    event = replace(event, active=sum(p.active for p in self.places), busy=event.busy / there)
                case NewAnswer():
                    del self.attempts[event.index]
                case Ended():
                    place.tasks.pop(event.index)
                case _:
                    pass
            told.append(event)
        return self._commit(told)

    def _commit(self, events: Sequence[Event]) -> bool:
        """Have events committed, and tell whether to go on as far as that depends on them; none only ask that."""
        try:
            self.work.commit(events)
        except Exception as error:
            self.error = self.error or error
            return False
        return True

    def _lost(self, place: Place, cause: str) -> None:
        """A worker is gone: its tasks wait for another, unless this happens again and again."""
        worker, tasks = place.worker, dict(place.tasks)
        place.vacate()
        self.crew.end([worker], at_once=True)
        place.failures += 1
        if self.error is not None:
            return
        self.attempts.update(tasks.keys())
        stuck = [name for index, name in tasks.items() if self.attempts[index] >= ATTEMPTS]
        if stuck:
            where = f"while it attacked {'image' if len(stuck) == 1 else 'images'} {', '.join(stuck)}"
        elif place.failures >= ATTEMPTS:
            where = "before it had an answer"
        else:
            self._give_back(tasks)
            self.tell(f"lost a worker because {cause}; its {len(tasks)} images go on elsewhere")
            return
        self.error = WorkerFailedError(
            f"a worker was lost {where}, {ATTEMPTS} times in a row, at last because {cause}. All answers so far are "
            "kept: mend it and give the same command to go on"
        )

    def _give_back(self, tasks: Collection[int]) -> None:
        try:
            self.work.give_back(tasks)
        except Exception as error:
            self.error = error
        self.drained = False

    def _send(self, place: Place, message: FromPool) -> None:
        self.crew.send(place.worker, pack(message))

    def _complain(self) -> None:
        """Say once why there is no worker, if there is none for long."""
        if self._in(WorkerState.IDLE, WorkerState.BUSY) or self.error is not None:
            self.alone_since = None
        elif self.alone_since is None:
            self.alone_since = time.monotonic()
        elif time.monotonic() - self.alone_since > PATIENCE:
            self.alone_since = float("inf")
            self.tell(f"no worker is ready after {PATIENCE:g} s: {self.crew.waiting()}")
