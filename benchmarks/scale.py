"""A queue of 50,000 images and a target that answers at once: what a claim and a commit cost, memory, status, report.

`python -m benchmarks.scale [IMAGES]` claims and commits all but the last as the runner does, without the attacks, has
the runner attack the last in the same process, then calls `dowse status` and `dowse report` on what is there. All times
are the processes' own, so that a busy machine can measure them; those of claims and commits are medians.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.figure import Figure
from dowse.core.outcome import End
from dowse.experiment.file import make_experiment
from dowse.experiment.grid import plans_of
from dowse.experiment.tables import Experiment
from dowse.images.sources import open_images
from dowse.machine.cpu import ensure_fast_malloc
from dowse.running.engines import LocalEngine
from dowse.running.run_experiment import run_experiment
from dowse.store import Row, StoreWriter
from dowse.store.events import Ended, NewAnswer, Reserved, Round, Settled
from dowse.store.traces import pack

IMAGES = 50_000
ATTACKED = 300  # the last of them, by the runner itself
PICTURES = 200  # the first of them, which have pictures for the report to show
TARGET = "python:benchmarks.scale:answers_at_once"
ROW = Row(
    run="", position=0, name="", checksum="", end=End.ADVERSARIAL, queries=2, sent=2, budget=2, label=0,
    target_label=None, predicted=1, confidence=0.5, confidence_before=0.5, l2=0.1, linf=0.1, loss=0.25, seconds=0.1,
    seed=0, cause=None,
)  # fmt: skip


def figures(images: int = IMAGES) -> list[Figure]:
    """Run the queue in a fresh process, then look at its store."""
    with TemporaryDirectory() as folder:
        rng = torch.Generator().manual_seed(0)
        levels = torch.randint(256, (images, 4, 4, 3), generator=rng, dtype=torch.uint8)
        np.savez(Path(folder) / "images.npz", images=levels.numpy())
        told = json.loads(_output([sys.executable, "-m", "benchmarks.scale", "--run", folder]))
        dowse = [sys.executable, "-m", "dowse"]
        looking = {word: _own_seconds([*dowse, word, f"{folder}/out"]) for word in ("status", "report")}
    queue = f"{images:,} images"
    return [
        Figure("ms a claim", [told["claim"]], "at most", 1.0, queue),
        Figure("ms a commit", [told["write"]], "at most", 1.0, queue),
        Figure("memory of the queue over that at a tenth", [told["filled"] / told["early"]], "at most", 1.1, queue),
        *(Figure(f"s of dowse {word}", [taken], "at most", 5.0, queue) for word, taken in looking.items()),
        Figure("ms an image of the last, start included", [1000 * told["seconds"] / ATTACKED], "at most", 50.0, queue),
        Figure("MB at the end, all rows counted", [told["end"]], "at most", 1500.0, queue),
    ]


def run(folder: Path) -> dict[str, float]:
    """Attack all images of a folder, two queries each; medians in ms, memory in MB."""
    torch.set_num_threads(1)
    taken = {name: _timed(name) for name in ("claim", "write")}
    said = {
        "target": TARGET, "images": str(folder / "images.npz"), "eps": 1e-3, "budget": 2, "concurrency": 16,
        "method": "square", "save": "none",
    }  # fmt: skip
    experiment, engine = make_experiment(said, source="benchmark"), LocalEngine()
    memory = fill(experiment, folder / "out", engine)
    begun = time.process_time()
    with closing(engine):
        (finished,) = run_experiment(experiment, folder / "out", engine)
    seconds = time.process_time() - begun
    assert all(row.queries == 2 for row in finished.rows), "an image was fooled before its budget was spent"
    medians = {name: 1000 * statistics.median(samples) for name, samples in taken.items()}
    return medians | {"early": memory[0], "filled": memory[1], "end": _memory(), "seconds": seconds}


def fill(experiment: Experiment, out: Path, engine: LocalEngine) -> tuple[float, float]:
    """Claim and commit all images but the last ones as the runner does, without the attacks.

    Returns:
        MB of memory when a tenth was done, and in the end.
    """
    images = open_images(experiment.images.path, experiment.images.labels)
    (plan,) = plans_of(experiment, images, engine.input_shape)
    run, early = plan.spec.id, 0.0
    photograph = torch.rand(3, 224, 224, generator=torch.Generator().manual_seed(0))
    with StoreWriter(out, ["benchmark"]) as store:
        limit, count = store.begin(plan, experiment.images.path, images.entries)
        for number in range(count - ATTACKED):
            claimed = store.claim(run, plan.budget, limit)
            assert claimed is not None
            index = claimed[0]
            picture = photograph.roll(index, 2) if index < PICTURES else None
            store.enter(run, index, f"{index:016x}", picture)
            store.write(run, [Reserved(index, 2)])
            store.write(run, [NewAnswer(index, 0, b"-" * 200), Settled(index, 2), Round(1, 2, 0.0)])
            row = replace(ROW, run=run, position=index, name=images.entries[index].name, checksum=f"{index:016x}")
            trace = pack([{"queries": 1, "loss": 0.5}, {"queries": 2, "loss": 0.25}])
            store.write(run, [Ended(row, trace, None if picture is None else picture.flip(2))])
            if number == count // 10:
                early = _memory()
    return early, _memory()


def answers_at_once(points: torch.Tensor) -> torch.Tensor:
    """Scores that are mean colours, of which the first is far ahead."""
    scores = points.mean((2, 3))
    scores[:, 0] += 1
    return scores


def _timed(name: str) -> list[float]:
    """From now on the seconds of each call of a method of the store's writer; the process's own."""
    method: Callable[..., Any] = getattr(StoreWriter, name)
    samples: list[float] = []

    def timed(*arguments: Any, **more: Any) -> Any:
        begun = time.thread_time()
        try:
            return method(*arguments, **more)
        finally:
            samples.append(time.thread_time() - begun)

    setattr(StoreWriter, name, timed)
    return samples


def _memory() -> float:
    """MB of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def _output(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _own_seconds(command: list[str]) -> float:
    """Seconds of a command's own time, start of the interpreter included."""
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _output(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str]) -> None:
    """Measure, or be the run that is measured."""
    if arguments[:1] == ["--run"]:
        ensure_fast_malloc()
        print(json.dumps(run(Path(arguments[1]))))
        return
    for figure in figures(int(arguments[0]) if arguments else IMAGES):
        print(figure, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
