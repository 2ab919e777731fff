"""The images of one run in a pool's hands: waiting, under attack, or given back by a worker that was lost."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dowse.store.events import Answered, Ended, Event, Job, Restarted
from dowse.store.logged_answer import LoggedAnswer


@dataclass
class Held:
    """An image with all that is committed about it.

    Attributes:
        job: The image as the runner gave it.
        answers: Its log now.
        sent: Rows handed over for answers that are void by now.
        attempts: Workers that were lost with it since its last answer.
    """

    job: Job
    answers: list[bytes] = field(default_factory=list)
    sent: int = 0
    attempts: int = 0

    def resumed(self) -> Job:
        """The image as another worker can go on with it."""
        seconds = LoggedAnswer.unpack(self.answers[-1]).seconds if self.answers else self.job.seconds
        return replace(self.job, answers=tuple(self.answers), sent=self.sent, seconds=seconds)


class JobQueue:
    """One queue for all workers; images that come back go out first.

    Args:
        jobs: Where new images come from; asked in the thread that asks the queue.
    """

    def __init__(self, jobs: Iterator[Job]) -> None:
        self._jobs = jobs
        self._waiting: deque[Held] = deque()
        self._held: dict[int, Held] = {}

    def waiting(self, most: int) -> int:
        """How many images wait, counted up to `most`."""
        while len(self._waiting) < most and (job := next(self._jobs, None)) is not None:
            self._waiting.append(Held(job, list(job.answers), job.sent))
        return min(most, len(self._waiting))

    def take(self) -> Job | None:
        """The next image, from now on under attack; None if none waits."""
        if not self.waiting(1):
            return None
        held = self._waiting.popleft()
        self._held[held.job.task] = held
        return held.resumed()

    def committed(self, events: Sequence[Event]) -> None:
        """Events are in the store."""
        for event in events:
            match event:
                case Answered():
                    held = self._held[event.task]
                    held.answers[event.number :] = [event.block]
                    held.attempts = 0
                case Restarted():
                    held = self._held[event.task]
                    held.answers, held.sent = [], held.sent + event.sent
                case Ended():
                    del self._held[event.task]
                case _:
                    pass

    def give_back(self, tasks: Iterable[int]) -> list[Held]:
        """A worker was lost; those of its images that have not ended wait again, before all others."""
        lost = [self._held.pop(task) for task in tasks if task in self._held]
        for held in reversed(lost):
            held.attempts += 1
            self._waiting.appendleft(held)
        return lost
