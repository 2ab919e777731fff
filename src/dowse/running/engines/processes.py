"""Workers that are processes of this machine, each with a pipe to the runner's."""

import atexit
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from dowse.machine.cpu import usable_cores
from dowse.running.engines.base import Tell, tell_by_warning
from dowse.running.engines.crew import Crew, Lost
from dowse.running.engines.pool import Pool
from dowse.running.engines.pool_worker import prepare, serve
from dowse.running.interrupt import SIGNALS

SPAWN = multiprocessing.get_context("spawn")  # a forked torch hangs in its thread pools
FAREWELL = 5.0  # seconds for a worker to end by itself


class ProcessEngine(Pool):
    """Attacks in processes of this machine.

    Args:
        workers: How many; as many as this process may use cores if left out.
        threads: Torch threads of each; one if left out, but torch's own choice for a single worker.
        tell: Told what a person should know.
    """

    def __init__(self, workers: int | None = None, *, threads: int | None = None, tell: Tell = tell_by_warning) -> None:
        super().__init__(ProcessCrew(1 if threads is None and workers != 1 else threads), workers, tell)
        atexit.register(self.close)

    def close(self) -> None:
        """End all workers."""
        atexit.unregister(self.close)
        super().close()


@dataclass(eq=False)
class WorkerProcess:
    """A process and our end of its pipe."""

    process: BaseProcess
    pipe: Connection


class ProcessCrew(Crew):
    """Starts processes and talks to them through pipes."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads

    def capacity(self) -> int:
        return usable_cores()

    def start(self) -> WorkerProcess:
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(target=_live, args=(theirs, os.getcwd(), sys.path, self.threads), name="dowse-worker")
        with _signals_blocked():
            process.start()
        theirs.close()
        return WorkerProcess(process, ours)

    def send(self, worker: WorkerProcess, message: bytes) -> None:
        with suppress(OSError):
            worker.pipe.send_bytes(message)

    def receive(self, workers: Collection[WorkerProcess], timeout: float) -> list[tuple[WorkerProcess, bytes | Lost]]:
        ready = wait([worker.pipe for worker in workers], timeout)
        return [(worker, self._read(worker)) for worker in workers if worker.pipe in ready]

    def end(self, workers: Collection[WorkerProcess], *, at_once: bool) -> None:
        for worker in workers:
            worker.pipe.close()
        deadline = time.monotonic() + (0.0 if at_once else FAREWELL)
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
            worker.process.close()

    def waiting(self) -> str:
        return "the machine may be short of memory, or too busy to start processes"

    def close(self) -> None:
        """Nothing is left."""

    def _read(self, worker: WorkerProcess) -> bytes | Lost:
        try:
            return worker.pipe.recv_bytes()
        except (EOFError, OSError):
            worker.process.join(FAREWELL)
            return Lost(f"its process {_how_it_ended(worker.process.exitcode)}")


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "has closed its pipe"
    if code >= 0:
        return f"ended with status {code}; what it had to say is on standard error"
    return f"was killed by {signal.Signals(-code).name}"


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process started meanwhile hears no Ctrl-C and no SIGTERM: those are for the runner, who tells its workers."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _live(pipe: Connection, folder: str, path: list[str], threads: int | None) -> None:
    """The life of a worker process, until its pipe is closed by the runner or by the runner's death."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    os.dup2(2, 1)  # standard output is the runner's: events in JSON may be on it

    def exchange(message: bytes) -> bytes:
        try:
            pipe.send_bytes(message)
            return pipe.recv_bytes()
        except (EOFError, OSError):
            raise SystemExit from None

    serve(exchange, prepare(folder=folder, path=path, threads=threads))
