"""Stores made by hand for tests of the report: any number of methods and images, with no attack at all."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from dowse.core.outcome import End
from dowse.experiment.spec import PlannedRun, RunSpec
from dowse.images.image_set import Entry
from dowse.store import Row, StoreWriter
from dowse.store.events import Ended
from dowse.store.images import save_original
from dowse.store.traces import pack

BUDGET = 1000
POINTS = tuple({"queries": q, "loss": q / 10, "alpha": 0.25} for q in range(1, 40, 3))
CELL = RunSpec(target="dowse:imagenet_resnet18", surrogate=("dowse:s",), image_set="set", method="prgf", loss="ce")


@dataclass(frozen=True)
class Made:
    """A run to be made: `queries` has a number an image, None for one that ran out of its budget."""

    title: str
    queries: Sequence[int | None]
    spec: RunSpec = CELL
    names: Sequence[str] = ()
    ends: Sequence[End] = ()
    cause: str | None = None
    pictures: int = 4
    traces: int = 10**9
    points: Sequence[dict[str, float]] = POINTS
    skipped: str | None = None


def make_store(
    folder: Path, runs: Sequence[Made], *, budget: int = BUDGET, command: Sequence[str] = ("dowse",)
) -> Path:
    """Write the runs; image i of every run is the same image, `pictures` of each run have pixels."""
    with StoreWriter(folder, list(command)) as store:
        for number, run in enumerate(runs):
            spec = replace(run.spec, options={**run.spec.options, "number": number}, budget=budget)
            plan = PlannedRun(spec=spec, title=run.title, count=None)
            names = run.names or [f"{i:04}.png" for i in range(len(run.queries))]
            store.begin(plan, "images", [Entry(name, 1) for name in names])
            store._database.execute(
                "UPDATE tasks SET owner = ?, image = 'sum' || position WHERE run = ?", (store.session, spec.id)
            )
            store.write(spec.id, [ended(run, i, spec.id, budget) for i in range(len(names))])
            if run.skipped:
                store._database.execute(
                    "INSERT INTO tasks (run, position, name, skipped) VALUES (?, ?, ?, ?)",
                    (spec.id, len(names), run.skipped, run.skipped),
                )
        for i in range(max((run.pictures for run in runs), default=0)):
            save_original(folder, f"sum{i}", pixels(i))
    return folder


def pixels(seed: int, side: int = 24) -> torch.Tensor:
    return torch.rand(3, side, side, generator=torch.Generator().manual_seed(seed)).mul(255).round() / 255


def ended(run: Made, i: int, run_id: str, budget: int) -> Ended:
    taken = run.queries[i]
    end = run.ends[i] if run.ends else End.BUDGET if taken is None else End.ADVERSARIAL
    shown = end is End.ADVERSARIAL and i < run.pictures
    values: dict[str, Any] = {
        "queries": budget if taken is None else taken, "sent": 1, "budget": budget, "label": 1, "target_label": None,
        "predicted": 2 + i % 7, "confidence": 0.75, "confidence_before": 0.5, "l2": 0.5, "linf": 0.1, "loss": 1.25,
        "seconds": 2.0, "cause": run.cause if end is End.TARGET_FAILED else None, "seed": run.spec.seed,
    }  # fmt: skip
    row = Row(run=run_id, position=i, name="", checksum=f"sum{i}", end=end, **values)
    image = (pixels(i) + 0.02).clamp(0, 1) if shown else None
    return Ended(row, pack(run.points if i < run.traces else []), image)


def data_of(page: str) -> dict[str, Any]:
    """The JSON that a page carries."""
    text = page.partition('id="data">')[2].partition("</script>")[0]
    found: dict[str, Any] = json.loads(text)
    return found
