"""Workers of a pool for tests: threads that can be made to die at any message, and what all engines are measured by."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from torch import Tensor, nn

from dowse.experiment.file import make_experiment
from dowse.running.engines import Engine
from dowse.running.engines.crew import Lost
from dowse.running.engines.pool import Pool
from dowse.running.engines.pool_worker import serve
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Reporter, Snapshot
from dowse.running.run_experiment import run_experiment
from dowse.store import Store
from tests.support import pictures
from tests.victims import PROJECT, ROWS, SURROGATE, calls_seen, die, rows_seen, surrogate, target

GATE = "DOWSE_TEST_GATE"  # the variable that names the folder where gated targets wait
TOLD_BY_A_ROW = (
    "position", "checksum", "end", "queries", "label", "predicted", "confidence", "confidence_before", "l2",
    "linf", "loss", "refused", "queries_until_detected",
)  # fmt: skip


class ThreadWorker:
    """A worker in a thread; `dies` says before or after which of its messages it is lost."""

    def __init__(self, dies: tuple[int, str] | None) -> None:
        self.dies = dies
        self.said: SimpleQueue[bytes | Lost] = SimpleQueue()
        self.replies: SimpleQueue[bytes | None] = SimpleQueue()
        self.count = itertools.count()
        self.thread = threading.Thread(target=self.live, daemon=True)
        self.thread.start()

    def live(self) -> None:
        with suppress(SystemExit):
            serve(self.exchange, [])

    def exchange(self, message: bytes) -> bytes:
        number = next(self.count)
        if self.dies == (number, "before"):
            self.said.put(Lost("it was told to die"))
            raise SystemExit
        self.said.put(message)
        if self.dies == (number, "after"):
            self.said.put(Lost("it was told to die"))
            raise SystemExit
        reply = self.replies.get()
        if reply is None:
            raise SystemExit
        return reply


class ThreadCrew:
    """Starts threads; `deaths` says of the n-th worker started when it is lost."""

    def __init__(self, deaths: Mapping[int, tuple[int, str]] | None = None, room: int = 2) -> None:
        self.deaths, self.room, self.started = deaths or {}, room, 0

    def capacity(self) -> int:
        return self.room

    def start(self) -> ThreadWorker:
        self.started += 1
        return ThreadWorker(self.deaths.get(self.started - 1))

    def send(self, worker: ThreadWorker, message: bytes) -> None:
        worker.replies.put(message)

    def receive(self, workers: Collection[ThreadWorker], timeout: float) -> list[tuple[Any, bytes | Lost]]:
        deadline, heard = time.monotonic() + timeout, []
        while not heard and time.monotonic() < deadline:
            for worker in workers:
                try:
                    heard.append((worker, worker.said.get_nowait()))
                except Empty:
                    continue
            if not heard:
                time.sleep(0.0005)
        return heard

    def end(self, workers: Collection[ThreadWorker], *, at_once: bool) -> None:
        for worker in workers:
            worker.replies.put(None)
        for worker in workers:
            worker.thread.join(10)
            assert not worker.thread.is_alive()

    def waiting(self) -> str:
        return "nothing that a thread could wait for"

    def close(self) -> None:
        """Nothing is left."""


class StopAfter(Reporter):
    """Asks for an end after so many commits, as Ctrl-C does."""

    def __init__(self, commits: int, interrupt: Interrupt) -> None:
        self.commits, self.interrupt = commits, interrupt

    def progressed(self, snapshot: Snapshot) -> None:
        self.commits -= 1
        self.interrupt.wanted = self.interrupt.wanted or self.commits <= 0


class Killing(Reporter):
    """Kills the worker that asked last, after each of some numbers of commits, counted while a worker has asked."""

    def __init__(self, seen: Path, moments: set[int]) -> None:
        self.seen, self.moments, self.commits = seen, moments, 0
        self.killed: list[int] = []

    def progressed(self, snapshot: Snapshot) -> None:
        asking = [pid for pid, _ in calls_seen(self.seen) if is_running(pid)]
        self.commits += bool(asking)
        if asking and self.commits in self.moments:
            os.kill(asking[-1], signal.SIGKILL)
            self.killed.append(asking[-1])


@dataclass
class Workshop:
    """An engine for several tests, since each process takes seconds to start."""

    engine: Pool
    seen: Path
    told: list[str]

    def clear(self) -> None:
        self.seen.unlink(missing_ok=True)
        self.told.clear()

    @property
    def complaints(self) -> list[str]:
        """What was told, without that the machine is slow."""
        return [text for text in self.told if not text.startswith("no worker is ready")]


@contextmanager
def rows_written_to(path: Path) -> Iterator[Path]:
    """Targets of tests.victims, started meanwhile, write down what they are asked about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ROWS, str(path))
        yield path


def run_with(engine: Engine, said: Mapping[str, Any], out: Path, **more: Any) -> list[tuple[Any, ...]]:
    """What an experiment's rows say, in the order of the images."""
    (finished,) = run_experiment(make_experiment(said, source="test"), out, engine, **more)
    rows = sorted(finished.rows, key=lambda row: row.position)
    return [tuple(getattr(row, word) for word in TOLD_BY_A_ROW) for row in rows]


def rows_sent(out: Path) -> int:
    """How many rows were handed to the target, as the store of one run counts them."""
    with Store(out) as store:
        (run,) = store.runs()
        return store.sent(run.id)


def asked_twice(seen: Path, once: Path) -> Counter[str]:
    """Rows that were seen more often than in a run without faults; fails if one was seen less often."""
    assert not rows_seen(once) - rows_seen(seen)
    return rows_seen(seen) - rows_seen(once)


def largest_round(seen: Path) -> int:
    """The most rows in one call of the target."""
    return max(len(rows) for _, rows in calls_seen(seen))


class Breaking(nn.Module):
    """Does something terrible when it is shown image number 3 of tests.victims.image_file, or an image near it.

    It bears the first `looks` calls: a run looks at a surrogate by whichever image its worker has first.
    """

    def __init__(self, net: nn.Module, terrible: Callable[[], None], looks: int = 0) -> None:
        super().__init__()
        self.net, self.terrible, self.image, self.looks = net, terrible, pictures(4)[3], looks

    def forward(self, x: Tensor) -> Tensor:
        self.looks -= 1
        if self.looks < 0 and len(x) and float((x - self.image).abs().flatten(1).amax(1).min()) < 0.15:
            self.terrible()
        return self.net(x)


def brittle() -> nn.Module:
    """A surrogate that raises."""

    def terrible() -> None:
        raise RuntimeError("this image breaks me")

    return Breaking(surrogate(), terrible, looks=1)


def deadly() -> nn.Module:
    """A target that takes its process with it."""
    return Breaking(target(), die)


def stillborn() -> nn.Module:
    """A target that ends its process while it is loaded."""
    raise SystemExit(7)


def grumbling() -> nn.Module:
    """A target that warns, and writes to standard output."""
    warnings.warn("mind the weights", stacklevel=1)
    print("a target's own words", flush=True)  # noqa: T201
    return target()


class Gated(nn.Module):
    """Says in $DOWSE_TEST_GATE that it is at its fifth call, and waits there until that folder holds a file `open`."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.calls = net, 0

    def forward(self, x: Tensor) -> Tensor:
        scores = self.net(x)
        self.calls += len(x) > 0
        if self.calls == 5 and (gate := os.environ.get(GATE)) is not None:
            (Path(gate) / str(os.getpid())).touch()
            while not (Path(gate) / "open").exists():
                time.sleep(0.01)
        return scores


def gated() -> nn.Module:
    return Gated(target())


def workers_at(gate: Path, count: int, runner: subprocess.Popen[str], patience: float = 300.0) -> list[int]:
    """The processes that wait at a gate, once there are so many."""
    deadline = time.monotonic() + patience
    while len(found := [int(path.name) for path in gate.iterdir() if path.name.isdecimal()]) < count:
        assert runner.poll() is None, f"the runner ended with status {runner.returncode}"
        assert time.monotonic() < deadline, f"{len(found)} workers of {count} came to the gate"
        time.sleep(0.02)
    return found


@contextmanager
def interrupted(
    said: Mapping[str, Any], out: Path, seen: Path, gate: Path, *engine: str
) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """`dowse attack` on a gated target in a process group of its own, once two workers of its wait at the gate."""
    gate.mkdir()
    options = {word: said[word] for word in ("images", "dtype", "eps", "budget", "concurrency", "batch_size")}
    options |= {"target": "torch:tests.crews:gated", "surrogate": SURROGATE, "out": out, "method": "prgf", "q": 5}
    words = [part for word, value in options.items() for part in (f"--{word.replace('_', '-')}", str(value))]
    command = [
        sys.executable,
        "-c",
        "from dowse.cli import app; app()",
        "attack",
        *words,
        "--method",
        "prgf",
        "--engine",
        *engine,
    ]
    runner = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**os.environ, GATE: str(gate), ROWS: str(seen)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield runner, workers_at(gate, 2, runner)
    finally:
        (gate / "open").touch()
        if runner.poll() is None:
            runner.kill()
            runner.wait()
        assert runner.stdout is not None
        runner.stdout.close()


def ctrl_c(runner: subprocess.Popen[str], gate: Path) -> str:
    """Interrupt a run as a terminal does, let its workers through the gate once it has heard, and return its words."""
    os.killpg(runner.pid, signal.SIGINT)
    assert runner.stdout is not None
    while "finishing the round" not in (line := runner.stdout.readline()):
        assert line, "the runner ended without a word about Ctrl-C"
    (gate / "open").touch()
    return runner.stdout.read()


def wait_for_the_end_of(pids: Collection[int], patience: float = 60.0) -> None:
    """Wait until none of these processes runs; one that has ended and that nobody asked about counts as gone."""
    deadline = time.monotonic() + patience
    while alive := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"processes {alive} are still there"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
