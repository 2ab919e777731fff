"""Small targets by spec for whole runs, a record of every row they saw, and processes made to be killed.

Run as a program it is a server of such processes: it imports everything once, and forks a child for each line it reads.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.support import Noisy, Tanh, pictures

ROWS = "DOWSE_TEST_ROWS"  # the variable that names the file of rows seen
TARGET, SURROGATE = "torch:tests.victims:target", "torch:tests.victims:surrogate"
PROJECT = Path(__file__).resolve().parent.parent


def write_call(path: str, seen: list[str]) -> None:
    """Add a call's rows to a file: a line begins and ends it, so that one which a kill divides spoils no other."""
    with open(path, "ab", buffering=0) as file:
        file.write(f"\n{json.dumps([os.getpid(), seen])}\n".encode())


class Recording(nn.Module):
    """Writes down every row it is asked about, one line a call, before it answers."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.takes_row_seeds = getattr(net, "takes_row_seeds", False)

    def forward(self, x: Tensor, **more: Any) -> Tensor:
        path = os.environ.get(ROWS)
        if path is not None and len(x):
            seen = [blake2b(row.numpy().tobytes(), digest_size=6).hexdigest() for row in x]
            write_call(path, seen)
        return self.net(x, **more)


def target() -> nn.Module:
    return Recording(Tanh(0))


def noisy() -> nn.Module:
    return Recording(Noisy(Tanh(0), 0.01))


def surrogate() -> nn.Module:
    return Tanh(1, near=Tanh(0))


class SometimesDead(nn.Module):
    """Answers only while a file is not there."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.net, self.file = Tanh(0), Path(file)

    def forward(self, x: Tensor) -> Tensor:
        if self.file.exists():
            raise ConnectionError("nobody listens")
        return self.net(x)


def sometimes_dead(file: str) -> nn.Module:
    return SometimesDead(file)


def image_file(folder: Path, n: int = 12, seed: int = 0) -> Path:
    """An .npz of n tiny 8-bit images without labels."""
    levels = (pictures(n, seed).permute(0, 2, 3, 1) * 255).round().to(torch.uint8)
    np.savez(folder / "images.npz", images=levels.numpy())
    return folder / "images.npz"


def tables(images: Path, **more: Any) -> dict[str, Any]:
    """An experiment on the tiny images."""
    said = {
        "target": TARGET, "surrogate": SURROGATE, "images": str(images), "dtype": "float64", "budget": 120,
        "concurrency": 4, "batch_size": 1000, "eps": 0.12, "method": {"name": "prgf", "q": 5},
    }  # fmt: skip
    return said | more


def calls_seen(path: Path) -> list[tuple[int, list[str]]]:
    """Every call of the target: the process that made it and the rows it asked about.

    One that is just being written, or whose process was killed at that, is none yet: a file grows page by page.
    """
    if not path.exists():
        return []
    lines = (line for line in path.read_text().splitlines() if line.endswith("]]"))
    return [(pid, rows) for pid, rows in map(json.loads, lines)]


def rows_seen(path: Path) -> Counter[str]:
    return Counter(row for _, rows in calls_seen(path) for row in rows)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(said: dict[str, Any], out: str, rows: str, moment: str, number: int, engine: str = "local") -> None:
    """Run an experiment, and die when `moment` comes for the `number`th time; "never" runs to the end."""
    from dowse.experiment.file import make_experiment
    from dowse.running.engines import make_engine
    from dowse.running.run_experiment import run_experiment
    from dowse.store import StoreWriter
    from dowse.store import images as store_images

    os.environ[ROWS] = rows
    torch.set_num_threads(1)
    left, compiles = number, "torch._dynamo" in sys.modules

    def deadly(function: Any, *, before: bool) -> Any:
        def called(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if before and left < 0:
                die()
            result = function(*arguments, **more)
            if left < 0:
                die()
            return result

        return called

    places = {
        "in the target": (Tanh, "forward"),
        "before a commit": (StoreWriter, "write"),
        "after a commit": (StoreWriter, "write"),
        "inside a transaction": (StoreWriter, "_mine"),
        "after a claim": (StoreWriter, "claim"),
        "before a row": (StoreWriter, "_end"),
        "after an image file": (store_images, "save_adversarial"),
    }
    if moment in places:
        owner, name = places[moment]
        setattr(owner, name, deadly(getattr(owner, name), before=not moment.startswith("after")))
    with closing(make_engine(engine, workers=None if engine == "local" else 2)) as made:
        run_experiment(make_experiment(said, source="test"), Path(out), made)
    assert compiles or "torch._dynamo" not in sys.modules, "a run imports torch.compile: two seconds at every start"


class Victims:
    """The server of victims, seen from a test."""

    def __init__(self) -> None:
        self.server = Popen([sys.executable, "-m", "tests.victims"], cwd=PROJECT, stdin=PIPE, stdout=PIPE, text=True)

    def start(self, *arguments: Any) -> int:
        """Fork a victim; returns its process number."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps(arguments) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def wait(self) -> int:
        """Wait for the victim's end; its exit status, negative if a signal ended it."""
        assert self.server.stdout is not None
        return int(self.server.stdout.readline())

    def close(self) -> None:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.close()
        self.server.stdout.close()
        self.server.wait()


@contextmanager
def victims() -> Iterator[Victims]:
    server = Victims()
    try:
        yield server
    finally:
        server.close()


def serve() -> None:
    import dowse.running.run_experiment  # noqa: F401 imported once, for all children

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                run_and_die(*json.loads(line))
                status = 0
            finally:
                os._exit(status)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, ended = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(ended)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
