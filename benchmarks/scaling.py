"""What several workers gain, and what Ray costs: wall time of whole runs, the start and the end of workers included.

`python -m benchmarks.scaling [SECONDS [REPEATS]]` makes the runs shorter or longer than a minute of one worker.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.figure import Figure, seconds
from benchmarks.targets import cifar_target, noise_images
from dowse.experiment.file import make_experiment
from dowse.machine.cpu import ensure_fast_malloc
from dowse.running.engines import Engine, LocalEngine, make_engine
from dowse.running.run_experiment import run_experiment

SECONDS = 60.0  # of one worker; what starting Ray costs is meant to be seen against a run of a minute
REPEATS = 2
Q, BUDGET, CONCURRENCY = 50, 307, 8  # the image, and six times q probes and an iterate
TARGET = "torch:benchmarks.targets:cifar_target"


def figures(length: float = SECONDS, repeats: int = REPEATS) -> list[Figure]:
    """Two workers against one, and Ray against no engine at all, on a CIFAR ResNet-20; one torch thread each."""
    torch.set_num_threads(1)
    with work_of(length) as work:
        remark = f"{work.images} images, {BUDGET} queries each"
        local = [work.seconds(LocalEngine) for _ in range(repeats)]
        found = [_speed_up("processes", work, repeats, remark)[0]]
        if find_spec("ray") is None:
            print("Ray is not installed: its two figures are left out (pip install 'dowse[ray]')")
            return found
        faster, alone = _speed_up("ray", work, repeats, remark)
        costs = [ray / here for ray, here in zip(alone, local, strict=True)]
        name = "wall time with one Ray worker over the local engine's"
        remark = f"{min(local):.0f} s with the local engine"
        return [*found, faster, Figure(name, costs, "at most", 1.15, remark)]


@dataclass(frozen=True)
class Work:
    """A run whose every image spends its whole budget."""

    folder: Path
    images: int

    def seconds(self, engine: Callable[[], Engine]) -> float:
        """Wall time of the run in a new store."""
        out = self.folder / f"out-{time.monotonic_ns()}"
        said = {
            "target": TARGET, "images": str(self.folder / "images.npz"), "method": {"name": "rgf", "q": Q},
            "eps": 1e-5, "budget": BUDGET, "concurrency": CONCURRENCY, "save": "none",
        }  # fmt: skip
        experiment = make_experiment(said, source="benchmark")

        def run() -> None:
            with closing(engine()) as made:
                (finished,) = run_experiment(experiment, out, made)
            assert all(row.queries == BUDGET for row in finished.rows), (
                "an image was fooled before its budget was spent"
            )

        return seconds(run)


@contextmanager
def work_of(length: float) -> Iterator[Work]:
    """Work that takes one worker about so many seconds; two workers can share it evenly."""
    net, points = cifar_target(), noise_images(256, 32)
    with torch.no_grad():
        net(points)
        rate = 3 * len(points) / seconds(lambda: [net(points) for _ in range(3)])
    wave = 2 * CONCURRENCY
    images = max(1, round(length * rate / BUDGET / wave)) * wave
    with TemporaryDirectory() as folder:
        levels = (noise_images(images, 32).permute(0, 2, 3, 1) * 255).round().to(torch.uint8)
        np.savez(Path(folder) / "images.npz", images=levels.numpy())
        yield Work(Path(folder), images)


def _speed_up(engine: str, work: Work, repeats: int, remark: str) -> tuple[Figure, list[float]]:
    """How much faster two workers of an engine are than one, and the seconds of one."""
    one, two = (
        [work.seconds(partial(make_engine, engine, workers=n, threads=1)) for _ in range(repeats)] for n in (1, 2)
    )
    ratios = [slow / fast for slow, fast in zip(one, two, strict=True)]
    return Figure(f"speed-up of 2 workers over 1, engine {engine}", ratios, "at least", 1.6, remark), one


def main(arguments: list[str]) -> None:
    ensure_fast_malloc()
    length, repeats = (*arguments, *(str(default) for default in (SECONDS, REPEATS)[len(arguments) :]))
    for figure in figures(float(length), int(repeats)):
        print(figure, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
