"""Engines: where the attacks of a run take place. All of them do what `dowse.worker.attack_jobs` does."""

from collections.abc import Iterator
from typing import Protocol

from dowse.errors import choose
from dowse.messages import Deliver, Job
from dowse.worker import Networks, Order, attack_jobs

__all__ = ["ENGINES", "Engine", "LocalEngine", "make_engine"]


class Engine(Protocol):
    """Attacks the images of a cell, here or elsewhere."""

    def run(self, order: Order, jobs: Iterator[Job], deliver: Deliver) -> None:
        """Take jobs as slots become free, and deliver what happens, from the runner's own process and thread.

        `next(jobs)` claims an image in the store, and `deliver` writes to it: both belong to the runner's process, and
        events delivered together are committed together. An image's Answered events must be delivered, and `deliver`
        have returned, before its next question is asked. A job that did not end can be given to another worker with
        the blocks delivered since added to its `answers`. Returns when every job has ended.
        """
        ...

    def close(self) -> None:
        """Let go of whatever it holds."""
        ...


class LocalEngine:
    """Attacks in this process."""

    def __init__(self) -> None:
        self.networks = Networks()

    def run(self, order: Order, jobs: Iterator[Job], deliver: Deliver) -> None:
        """As Engine.run."""
        attack_jobs(order, jobs, deliver, self.networks)

    def close(self) -> None:
        """Forget the networks."""
        self.networks = Networks()


ENGINES = {"local": LocalEngine}


def make_engine(name: str) -> Engine:
    """The engine of a name."""
    choose("engine", name, ENGINES)
    return ENGINES[name]()
