"""Workers that are Ray actors, on this machine or on a cluster's."""

import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dowse.errors import InputError, WorkerFailedError, positive
from dowse.machine.cpu import usable_cores
from dowse.machine.importing import needed
from dowse.running.engines.base import Tell, tell_by_warning
from dowse.running.engines.crew import Crew, Lost
from dowse.running.engines.pool import Pool
from dowse.running.engines.ray_actor import Attacker

OBJECT_STORE = 256 * 2**20  # bytes; messages are small, and what does not fit goes to the disk
NODE_LOST = "the Ray node that this process is connected to is gone"
NODE_CHECK = 5.0  # seconds of silence between two looks whether it is there
KNOCK = 10.0  # seconds for a cluster's head to answer at all
LONGEST_CAUSE = 400  # letters of Ray's own words
SETTINGS = {  # variables that Ray reads when it is imported
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else a worker that reserves no GPU sees none
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # else Ray writes about lost workers to standard output, where events may be
}


class RayEngine(Pool):
    """Attacks in actors of a Ray cluster, or of a Ray of its own on this machine.

    Args:
        workers: How many; as many as there is room for if left out.
        address: The cluster's, as `ray.init` takes it; None starts Ray here, and ends it with the engine.
        cpus_per_worker: CPUs that each worker reserves.
        gpus_per_worker: GPUs that each worker reserves; a part of one lets workers share it.
        threads: Torch threads of each worker; one a CPU that it reserves if left out.
        tell: Told what a person should know.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        cpus_per_worker: float = 1.0,
        gpus_per_worker: float = 0.0,
        threads: int | None = None,
        tell: Tell = tell_by_warning,
    ) -> None:
        positive(cpus_per_worker=cpus_per_worker)
        if gpus_per_worker != 0:
            positive(gpus_per_worker=gpus_per_worker)
        needs = {"CPU": float(cpus_per_worker)}
        if gpus_per_worker:
            needs["GPU"] = float(gpus_per_worker)
        crew = RayCrew(address, needs, threads or max(1, int(cpus_per_worker)), workers)
        super().__init__(crew, workers, tell)


@dataclass(eq=False)
class RayWorker:
    """An actor, the call of its `step` that has not returned yet, and the session of Ray that it lives in."""

    actor: Any
    call: Any
    session: int


class RayCrew(Crew):
    """Starts actors and steps them.

    Args:
        address: The cluster's; None starts Ray on this machine.
        needs: What a worker reserves, by the names of Ray's resources.
        threads: Torch threads of each.
        workers: How many there will be; None if that is for `capacity` to say.
    """

    def __init__(self, address: str | None, needs: dict[str, float], threads: int, workers: int | None) -> None:
        self.address, self.needs, self.threads, self.workers = address, needs, threads, workers
        self._ray: Any = None
        self._is_ours = False
        self._session, self._node, self._asked = 0, "", 0.0

    def capacity(self) -> int:
        """As Crew.capacity: how many workers fit on the nodes there are."""
        return sum(int(_room(node, self.needs)) for node in self._nodes(self._connected()))

    def start(self) -> RayWorker:
        """As Crew.start; the actor waits, with no error, until a node has room for it."""
        if self._ray is not None and self._lost_its_node():
            self._leave()
        ray = self._connected()
        options = {"num_cpus": self.needs["CPU"], "num_gpus": self.needs.get("GPU", 0.0)}
        make = ray.remote(max_restarts=0, max_task_retries=0, **options)(Attacker)
        actor = make.remote(os.getcwd(), list(sys.path), self.threads)
        return RayWorker(actor, actor.step.remote(None), self._session)

    def send(self, worker: RayWorker, message: bytes) -> None:
        worker.call = worker.actor.step.remote(message)

    def receive(self, workers: Collection[RayWorker], timeout: float) -> list[tuple[RayWorker, bytes | Lost]]:
        """As Crew.receive.

        Where the node is gone that connects this process with Ray, nobody would ever be heard again: all workers are
        lost with it, and the next one starts in a new session.
        """
        gone = [worker for worker in workers if worker.session != self._session]
        if gone:
            return [(worker, Lost(NODE_LOST)) for worker in gone]
        calls = [worker.call for worker in workers]
        returned, rest = self._ray.wait(calls, num_returns=1, timeout=timeout)
        if returned and rest:
            returned += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        if not returned and workers and time.monotonic() - self._asked > NODE_CHECK and self._lost_its_node():
            self._leave()
            return [(worker, Lost(NODE_LOST)) for worker in workers]
        return [(worker, self._returned(worker)) for worker in workers if worker.call in returned]

    def end(self, workers: Collection[RayWorker], *, at_once: bool) -> None:
        """As Crew.end; an actor that is idle has nothing to lose."""
        for worker in workers:
            if worker.session != self._session or self._ray is None:
                continue
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(worker.actor)

    def waiting(self) -> str:
        ray = self._connected()
        free, there = ray.available_resources(), ray.cluster_resources()
        told = [f"{free.get(name, 0):g} of {there.get(name, 0):g} {name}s" for name in self.needs]
        wanted = " and ".join(f"{amount:g} {name}" for name, amount in self.needs.items())
        return f"they start slowly, or wait for room: Ray has {' and '.join(told)} free, and a worker reserves {wanted}"

    def close(self) -> None:
        """End Ray, if it was started here."""
        if self._ray is not None and self._is_ours:
            self._ray.shutdown()
        self._ray = None

    def _lost_its_node(self) -> bool:
        """Whether the node is gone that this process is connected to; WorkerFailedError if Ray is not ours to start."""
        self._asked = time.monotonic()
        if any(node["NodeID"] == self._node and node["Alive"] for node in self._ray.nodes()):
            return False
        if not self._is_ours:
            raise WorkerFailedError(f"{NODE_LOST}: start Ray again in this program, then give the same run again")
        return True

    def _leave(self) -> None:
        """End this session; the next question opens another."""
        self._ray.shutdown()
        self._ray, self._session = None, self._session + 1

    def _returned(self, worker: RayWorker) -> bytes | Lost:
        try:
            message: bytes = self._ray.get(worker.call)
        except self._ray.exceptions.RayError as error:
            *_, last = str(error).strip().splitlines() or [""]
            return Lost(f"{type(error).__name__}: {last.strip()[:LONGEST_CAUSE]}")
        return message

    def _connected(self) -> Any:
        if self._ray is None:
            ray = _import_ray()
            if not ray.is_initialized():
                with _own_sigterm():
                    self._init(ray)
                self._is_ours = True
            self._ray, self._node = ray, ray.get_runtime_context().get_node_id()
            self._check_room(ray)
        return self._ray

    def _init(self, ray: Any) -> None:
        quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
        if self.address is None:
            workers = self.workers or max(1, int(usable_cores() / self.needs["CPU"]))
            cpus = math.ceil(workers * self.needs["CPU"])
            try:
                ray.init(address="local", num_cpus=cpus, object_store_memory=OBJECT_STORE, **quiet)
            except Exception as error:  # Ray has no one class for these
                ray.shutdown()
                raise WorkerFailedError(
                    f"Ray could not be started on this machine: {error}. Its logs, in /tmp/ray/session_latest/logs "
                    "unless RAY_TMPDIR says otherwise, tell why"
                ) from error
            return
        try:
            _knock(self.address)
            ray.init(address=self.address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"no Ray cluster answers at {self.address!r}: {error}. Start one with `ray start --head` and give its "
                "address, or leave the address out to run Ray on this machine"
            ) from error

    def _nodes(self, ray: Any) -> list[dict[str, float]]:
        """The resources of the nodes that live."""
        return [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def _check_room(self, ray: Any) -> None:
        """A worker that fits on no node would wait for ever."""
        nodes = self._nodes(ray)
        if not any(_room(node, self.needs) >= 1 for node in nodes):
            wanted = " and ".join(f"{amount:g} {name}" for name, amount in self.needs.items())
            there = "; ".join(", ".join(f"{node.get(name, 0):g} {name}" for name in self.needs) for node in nodes)
            raise InputError(
                f"a worker that reserves {wanted} fits on no node of the Ray cluster; they have {there or 'nothing'}. "
                "Reserve less a worker (cpus_per_worker, gpus_per_worker), or add a larger node"
            )


def _room(node: dict[str, float], needs: dict[str, float]) -> float:
    """How many workers fit on an empty node."""
    return min(node.get(name, 0.0) / amount for name, amount in needs.items())


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT or ray://HOST:PORT; Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=KNOCK).close()


def _import_ray() -> Any:
    for variable, value in SETTINGS.items():
        os.environ.setdefault(variable, value)
    needed("ray.exceptions", "the engine ray needs Ray", "ray")
    import ray

    return ray


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what SIGTERM does here: ray.init takes it over."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Callable[..., object] | int | None = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
