"""Engines: where the attacks of a run take place. All of them do what `dowse.running.worker.attack_tasks` does."""

from dowse.errors import InputError, WorkerFailedError, choose
from dowse.running.engines.base import Engine, LocalEngine, Tell, Work, tell_by_warning

__all__ = ["ENGINES", "Engine", "LocalEngine", "Work", "WorkerFailedError", "make_engine"]

ENGINES = ("local", "processes", "ray")


def make_engine(
    name: str | None = None,
    *,
    workers: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    cpus_per_worker: float | None = None,
    gpus_per_worker: float | None = None,
    tell: Tell = tell_by_warning,
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
