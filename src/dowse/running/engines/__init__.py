"""Engines: where the attacks of a run take place. All of them do what `dowse.running.worker.attack_jobs` does."""

from collections.abc import Iterator
from typing import Protocol

from dowse.errors import InputError, choose
from dowse.running.engines.pool import Tell, WorkerFailedError, warn
from dowse.running.worker import Networks, Order, attack_jobs
from dowse.store.events import Deliver, Job

__all__ = ["ENGINES", "Engine", "LocalEngine", "WorkerFailedError", "make_engine"]


class Engine(Protocol):
    """Attacks the images of a run, here or elsewhere."""

    def run(self, order: Order, jobs: Iterator[Job], deliver: Deliver) -> None:
        """Take jobs as slots become free, and deliver what happens, from the runner's own process and thread.

        `next(jobs)` claims an image in the store, and `deliver` writes to it: both belong to the runner's process, and
        events delivered together are committed together. An image's Answered events must be delivered, and `deliver`
        have returned, before its next question is asked. A job that did not end can be given to another worker with
        the blocks delivered since added to its `answers`. An empty delivery asks whether to go on. Returns when every
        job has ended; once `deliver` has raised it takes no more jobs, delivers the rounds in flight, and raises that.
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
        """Let go of the networks."""
        self.networks.close()


ENGINES = ("local", "processes", "ray")


def make_engine(
    name: str | None = None,
    *,
    workers: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    cpus_per_worker: float | None = None,
    gpus_per_worker: float | None = None,
    tell: Tell = warn,
) -> Engine:
    """An engine by its name.

    Args:
        name: One of ENGINES; left out it is "processes" for several workers, else "local".
        workers: How many workers; as many as there is room for if left out. The local engine is its own only one.
        threads: Torch threads of each worker; docs/engines.md says how many there are if left out.
        address: A Ray cluster's address; left out, Ray runs on this machine.
        cpus_per_worker: CPUs that each worker of Ray reserves; one if left out.
        gpus_per_worker: GPUs that each worker of Ray reserves; none if left out.
        tell: Told what a person should know while it runs.
    """
    if name is None:
        name = "processes" if workers is not None and workers > 1 else "local"
    choose("engine", name, ENGINES)
    if name == "ray":
        from dowse.running.engines.ray import RayEngine

        return RayEngine(
            workers,
            address=address,
            cpus_per_worker=1.0 if cpus_per_worker is None else cpus_per_worker,
            gpus_per_worker=gpus_per_worker or 0.0,
            threads=threads,
            tell=tell,
        )
    rays = {"address": address, "cpus_per_worker": cpus_per_worker, "gpus_per_worker": gpus_per_worker}
    for word, value in rays.items():
        if value is not None:
            raise InputError(f"{word}={value!r} is for the engine ray, got the engine {name}: say engine ray")
    if name == "processes":
        from dowse.running.engines.processes import ProcessEngine

        return ProcessEngine(workers, threads=threads, tell=tell)
    if workers is not None and workers != 1:
        raise InputError(f"the engine local attacks in this process alone, got workers={workers}: say engine processes")
    return LocalEngine()
