"""Runs killed at random moments, engine by engine: what differs from a run that nobody killed, and what it cost.

`python -m tests.faults.kills [--kills 50] [--engines local processes ray http] [--seed 0] [--minutes 30]` prints a
table: P-RGF in float32 on CIFAR-10 networks, the runner or one of its workers ended by SIGKILL, the same command again.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dowse import models
from dowse.machine.packages import shared_folder
from dowse.store import Store
from tests.crews import is_running, rows_sent
from tests.support import Convolutions
from tests.v2server import V2Server, serving
from tests.victims import ROWS, Victims, calls_seen, rows_seen, victims, write_call

COMPARED = ("position", "checksum", "end", "queries", "label", "predicted", "confidence", "l2", "linf", "loss")
ENGINES = ("local", "processes", "ray", "http")
MOST_CALLS = 12  # of the target between two kills
LONGEST_NAP = 0.05  # seconds


class Recorded(nn.Module):
    """A steady network that writes down every row before it answers, but for copies that fill it: one line a call."""

    steady = True

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        seen = [blake2b(row.numpy().tobytes(), digest_size=8).hexdigest() for row in x]
        while len(seen) > 1 and seen[-1] == seen[-2]:
            seen.pop()
        if ROWS in os.environ and seen:
            write_call(os.environ[ROWS], seen)
        scores: Tensor = self.net(x)
        return scores


def cifar() -> nn.Module:
    return Recorded(models.load("cifar10_resnet20"))


def small() -> nn.Module:
    return Recorded(Convolutions(0))


def small_surrogate() -> nn.Module:
    return Convolutions(1)


@dataclass(frozen=True)
class Subject:
    """What is run: a recorded target, the net that a server answers with, a surrogate, the images, what is said."""

    target: str
    served: Callable[[], nn.Module]
    surrogate: str
    images: Callable[[], np.ndarray[Any, Any]]
    said: dict[str, Any]


def _cifar_images() -> np.ndarray[Any, Any]:
    return np.asarray(np.load(shared_folder() / "data" / "cifar10_test1000.npz")["images"][:40])


CIFAR = Subject(
    "torch:tests.faults.kills:cifar",
    lambda: models.load("cifar10_resnet20"),
    "dowse:cifar10_resnet32",
    _cifar_images,
    {"eps": 0.25, "budget": 150, "concurrency": 8, "method": {"name": "prgf", "q": 20}},
)
SMALL = Subject(
    "torch:tests.faults.kills:small",
    lambda: Convolutions(0),
    "torch:tests.faults.kills:small_surrogate",
    lambda: np.random.default_rng(0).integers(50, 200, (6, 66, 66, 3), dtype=np.uint8),
    {"eps": 0.02, "budget": 60, "concurrency": 4, "method": {"name": "prgf", "q": 9}},
)


@dataclass
class Found:
    """A row of the table.

    Attributes:
        engine: Where the attacks took place.
        kills: How often a process was killed.
        images: Rows compared.
        differing: Rows that differ from those of the run that nobody killed, or whose images do.
        restarted: Images whose log was of no use.
        in_flight: Rows that were handed over, or about to be, when a process was killed.
        asked_twice: Rows that the target received more often than in the run that nobody killed.
        surplus: What `sent` says beyond what the target received.
        least_surplus: The least that it was right after any kill.
        over_budget: Images that were sent more than their budget and what was in flight.
    """

    engine: str
    kills: int = 0
    images: int = 0
    differing: int = 0
    restarted: int = 0
    in_flight: int = 0
    asked_twice: int = 0
    surplus: int = 0
    least_surplus: int = sys.maxsize
    over_budget: int = 0


def find(
    server: Victims, engine: str, subject: Subject, folder: Path, kills: int, seed: int = 0, seconds: float = 1800.0
) -> Found:
    """Kill runs, one after another, until there were so many kills or the time is over; each is run to its end."""
    found, rng, deadline = Found(engine), random.Random(f"{engine}{seed}"), time.monotonic() + seconds
    np.savez(folder / "images.npz", images=subject.images())
    while found.kills < kills and time.monotonic() < deadline:
        number = found.images // len(subject.images())
        said = {
            **subject.said,
            "surrogate": subject.surrogate,
            "images": str(folder / "images.npz"),
            "seed": number,
        }
        with _target(engine, subject, folder / f"whole{number}.rows") as (target, seen):
            whole = folder / f"whole{number}"
            server.start({**said, "target": target}, str(whole), str(seen.file), "never", 0, "local")
            assert server.wait() == 0, "the run that nobody kills failed"
            once, all_once = seen.count(), seen.rows()
        with _target(engine, subject, folder / f"broken{number}.rows") as (target, seen):
            broken = folder / f"broken{number}"
            _kill(server, engine, {**said, "target": target}, broken, seen, found, kills, rng, deadline)
            _compare(whole, broken, subject.said["budget"], found)
            found.asked_twice += (seen.rows() - all_once).total() if seen.server is None else seen.count() - once
            found.surplus += rows_sent(broken) - seen.count()
            assert seen.server is not None or not all_once - seen.rows(), "a row was never asked about"
    return found


@dataclass
class Received:
    """What the target received: written down by itself, or counted by the server that stands for it."""

    file: Path
    server: V2Server | None = None

    def count(self) -> int:
        return self.server.rows_seen if self.server is not None else self.rows().total()

    def rows(self) -> Any:
        return rows_seen(self.file)

    def calls(self) -> int:
        return len(self.server.seen) if self.server is not None else len(calls_seen(self.file))


class _RowByRow(nn.Module):
    """A server's network, which answers row by row: what shares a request changes nothing."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.net(row.unsqueeze(0)) for row in x.float()]).double()


@contextmanager
def _target(engine: str, subject: Subject, file: Path) -> Iterator[tuple[str, Received]]:
    if engine != "http":
        yield subject.target, Received(file)
        return
    side, classes = subject.images().shape[1], 10 if subject is CIFAR else 4
    shapes = {"shape": (-1, 3, side, side), "outputs": (("scores", (-1, classes)),)}
    with serving(_RowByRow(subject.served()), **shapes) as server:
        yield f"{server.url}#rows=16&connections=2", Received(file, server)


def _kill(
    server: Victims, engine: str, said: dict[str, Any], out: Path, seen: Received, found: Found, kills: int,
    rng: random.Random, deadline: float,
) -> None:  # fmt: skip
    """Run to the end, killed at random moments as long as there are kills left."""
    placed = "local" if engine == "http" else engine
    while True:
        runner = server.start(said, str(out), str(seen.file), "never", 0, placed)
        worker_dies = placed != "local" and rng.random() < 0.8
        while found.kills < kills and time.monotonic() < deadline and _wait(seen, rng.randint(1, MOST_CALLS), runner):
            time.sleep(rng.random() * LONGEST_NAP)
            victim = _worker(seen, runner, rng) if worker_dies else runner
            if victim is None or not is_running(victim):
                continue
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                found.kills += 1
            if victim == runner:
                break
            worker_dies = rng.random() < 0.8
        status = server.wait()
        if status == 0:
            return
        _wait_for_silence(seen)
        found.least_surplus = min(found.least_surplus, rows_sent(out) - seen.count())


def _wait(seen: Received, calls: int, runner: int) -> bool:
    """Wait for so many calls of the target; False if the runner ends before."""
    before = seen.calls()
    while seen.calls() < before + calls:
        if not is_running(runner):
            return False
        time.sleep(0.002)
    return True


def _worker(seen: Received, runner: int, rng: random.Random) -> int | None:
    """One of the workers that have asked the target lately."""
    lately = {pid for pid, _ in calls_seen(seen.file)[-20:] if pid != runner and is_running(pid)}
    return rng.choice(sorted(lately)) if lately else None


def _wait_for_silence(seen: Received) -> None:
    """Workers of a killed runner finish the question they are busy with."""
    calls = -1
    while calls != seen.calls() or any(is_running(pid) for pid in {pid for pid, _ in calls_seen(seen.file)[-20:]}):
        calls = seen.calls()
        time.sleep(0.2)


def _compare(whole: Path, broken: Path, budget: int, found: Found) -> None:
    with Store(whole) as one, Store(broken) as other:
        (run,) = other.runs()
        found.restarted += int(other.replays(run.id)["restarts"])
        for expected, row in zip(one.rows(), other.rows(), strict=True):
            same = all(getattr(row, name) == getattr(expected, name) for name in COMPARED)
            pictures = one.adversarial(expected), other.adversarial(row)
            if pictures[0] is not None and pictures[1] is not None:
                same = same and torch.equal(pictures[0], pictures[1])
            found.images += 1
            found.differing += not same
            found.in_flight += row.sent - row.queries
            found.over_budget += row.queries > budget


def table(rows: list[Found]) -> str:
    """The rows as Markdown."""
    heads = (
        "engine", "kills", "images", "rows differing", "images restarted", "rows in flight at kills",
        "rows asked twice",
        "sent − received", "the least after a kill", "over budget",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, astuple(row)))} |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30.0, help="the longest that kills go on for, an engine")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for engine in chosen.engines:
        with TemporaryDirectory() as folder, victims() as server:
            rows.append(find(server, engine, CIFAR, Path(folder), chosen.kills, chosen.seed, 60 * chosen.minutes))
        print(table(rows), flush=True)  # noqa: T201 what it is for


if __name__ == "__main__":
    main()
