"""An engine of several workers: one queue of images, one store, and whoever is lost is made up for.

The pool lives in the runner's process. Where its workers live, and how messages get there, is a Crew's affair.
"""

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Protocol

from dowse.errors import InputError, count
from dowse.running.engines.jobqueue import JobQueue
from dowse.running.engines.wire import (
    Begin,
    Delivers,
    Failed,
    Given,
    GoOn,
    Idle,
    Reply,
    Spoken,
    Stop,
    Wants,
    pack,
    unpack,
)
from dowse.running.worker import Order
from dowse.store.events import Deliver, Event, Job, Round

ATTEMPTS = 3  # so many workers lost on the same image, or in the same place, with no answer in between, end a run
TICK = 1.0  # seconds of silence after which the runner is asked whether to go on
PATIENCE = 60.0  # seconds without any worker after which somebody should know why

Tell = Callable[[str], None]


def warn(text: str) -> None:
    """Tell by a warning."""
    warnings.warn(text, stacklevel=2)


class WorkerFailedError(RuntimeError):
    """Workers fail again and again; what was answered is kept, and the message gives the cause."""


@dataclass(frozen=True)
class Lost:
    """A worker is gone, and why."""

    cause: str


class Crew(Protocol):
    """Where workers live: starts them, carries messages, ends them. A worker is whatever `start` returns."""

    def capacity(self) -> int:
        """How many workers there is room for."""
        ...

    def start(self) -> Any:
        """A new worker, which says Idle when it is ready."""
        ...

    def send(self, worker: Any, message: bytes) -> None:
        """Answer a worker. If it is gone, `receive` will tell."""
        ...

    def receive(self, workers: Collection[Any], timeout: float) -> list[tuple[Any, bytes | Lost]]:
        """What any of the workers has said, each at most once, or after some seconds nothing."""
        ...

    def end(self, workers: Collection[Any], *, at_once: bool) -> None:
        """Let workers go: at once, or when they have heard that nobody needs them, which takes idle ones a moment."""
        ...

    def waiting(self) -> str:
        """What new workers may be waiting for, for a person."""
        ...

    def close(self) -> None:
        """Let go of everything else."""
        ...


class _State(Enum):
    ABSENT = auto()
    STARTING = auto()
    IDLE = auto()
    BUSY = auto()


@dataclass(eq=False)
class _Place:
    """A worker's place in the pool; when the worker is lost another one takes it."""

    worker: Any = None
    state: _State = _State.ABSENT
    tasks: set[int] = field(default_factory=set)
    active: int = 0
    failures: int = 0

    def vacate(self) -> None:
        self.worker, self.state, self.active = None, _State.ABSENT, 0
        self.tasks.clear()


class Pool:
    """An Engine whose attacks take place in the workers of a crew.

    Args:
        crew: Where they live.
        workers: How many; None is as many as there is room for.
        tell: Told what a person should know.
    """

    def __init__(self, crew: Crew, workers: int | None = None, tell: Tell = warn) -> None:
        if workers is not None:
            count(workers=workers)
        self.crew, self.workers, self.tell = crew, workers, tell
        self._places: list[_Place] = []

    def run(self, order: Order, jobs: Iterator[Job], deliver: Deliver) -> None:
        """As Engine.run; the workers stay for the next spec."""
        if not self._places:
            self._places = [_Place() for _ in range(self.workers or self.crew.capacity())]
        try:
            _Turn(self.crew, self._places, order, JobQueue(jobs), deliver, self.tell).run()
        except BaseException:
            self._end(_State.STARTING, _State.BUSY, at_once=True)
            raise

    def close(self) -> None:
        """End all workers."""
        self._end(_State.STARTING, _State.BUSY, at_once=True)
        self._end(_State.IDLE, at_once=False)
        self.crew.close()

    def _end(self, *states: _State, at_once: bool) -> None:
        places = [place for place in self._places if place.state in states]
        workers = [place.worker for place in places]
        for place in places:
            place.vacate()
        if workers:
            self.crew.end(workers, at_once=at_once)


@dataclass
class _Turn:
    """One run in the pool. From the first error on nobody gets a new image, and everyone may finish the round."""

    crew: Crew
    places: Sequence[_Place]
    order: Order
    queue: JobQueue
    deliver: Deliver
    tell: Tell
    error: Exception | None = None
    alone_since: float | None = None

    def run(self) -> None:
        while True:
            if self.error is None:
                self._assign()
            if not self._in(_State.BUSY) and (self.error is not None or not self.queue.waiting(1)):
                break
            self._hear()
        if self.error is not None:
            raise self.error

    def _in(self, *states: _State) -> list[_Place]:
        return [place for place in self.places if place.state in states]

    def _assign(self) -> None:
        """Give every idle worker an image, and start as many workers as there is work for."""
        try:
            for place in self._in(_State.IDLE):
                job = self.queue.take()
                if job is not None:
                    place.state, place.tasks = _State.BUSY, {job.task}
                    self._send(place, Begin(self.order, job))
            wanted = self.queue.waiting(len(self.places)) - len(self._in(_State.STARTING))
            for place in self._in(_State.ABSENT)[: max(0, wanted)]:
                place.worker, place.state = self.crew.start(), _State.STARTING
        except Exception as error:
            self.error = error

    def _hear(self) -> None:
        present = {id(place.worker): place for place in self.places if place.state is not _State.ABSENT}
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

    def _answer(self, place: _Place, spoken: Spoken) -> None:
        for text in spoken.warned:
            self.tell(f"a worker warns: {text}")
        match spoken.message:
            case Idle():
                self.queue.give_back(place.tasks)
                place.state, place.active = _State.IDLE, 0
                place.tasks.clear()
            case Wants():
                self._send(place, Given(self._next_job(place)))
            case Delivers(events):
                self._commit(self._of_all(place, events))
                self._send(place, GoOn() if self.error is None else Stop())
            case Failed(cause, input_error):
                if input_error:
                    self.error = self.error or InputError(cause)
                self._lost(place, cause)

    def _next_job(self, place: _Place) -> Job | None:
        try:
            job = self.queue.take() if self.error is None else None
        except Exception as error:
            self.error, job = error, None
        if job is not None:
            place.tasks.add(job.task)
        return job

    def _commit(self, events: Sequence[Event]) -> None:
        """Have events committed; an empty delivery asks only whether to go on."""
        try:
            self.deliver(events)
        except Exception as error:
            self.error = self.error or error
        self.queue.committed(events)

    def _of_all(self, place: _Place, events: Sequence[Event]) -> list[Event]:
        """Events as told of the whole pool: images under attack in all workers, the target busy in the mean worker."""
        told: list[Event] = []
        for event in events:
            if isinstance(event, Round):
                place.active, place.failures = event.active, 0
                there = len(self._in(_State.IDLE, _State.BUSY))
                event = replace(event, active=sum(p.active for p in self.places), busy=event.busy / there)
            told.append(event)
        return told

    def _lost(self, place: _Place, cause: str) -> None:
        """A worker is gone: its images wait for another, unless this happens again and again."""
        worker, tasks = place.worker, sorted(place.tasks)
        place.vacate()
        self.crew.end([worker], at_once=True)
        place.failures += 1
        lost = self.queue.give_back(tasks)
        stuck = [held.job.id for held in lost if held.attempts >= ATTEMPTS]
        if stuck:
            where = f"while it attacked {'image' if len(stuck) == 1 else 'images'} {', '.join(stuck)}"
        elif place.failures >= ATTEMPTS:
            where = "before it had an answer"
        elif self.error is not None:
            return
        else:
            self.tell(f"lost a worker because {cause}; its {len(lost)} images go on elsewhere")
            return
        self.error = self.error or WorkerFailedError(
            f"a worker was lost {where}, {ATTEMPTS} times in a row, at last because {cause}. All answers so far are "
            "kept: mend it and give the same command to go on"
        )

    def _send(self, place: _Place, reply: Reply) -> None:
        self.crew.send(place.worker, pack(reply))

    def _complain(self) -> None:
        """Say once why there is no worker, if there is none for long."""
        if self._in(_State.IDLE, _State.BUSY) or self.error is not None:
            self.alone_since = None
        elif self.alone_since is None:
            self.alone_since = time.monotonic()
        elif time.monotonic() - self.alone_since > PATIENCE:
            self.alone_since = float("inf")
            self.tell(f"no worker is ready after {PATIENCE:g} s: {self.crew.waiting()}")
