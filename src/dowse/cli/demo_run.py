"""The demo: a real classifier, a real surrogate of another family, real photographs, three methods side by side."""

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

from dowse.core.result import End
from dowse.errors import InputError
from dowse.experiment.file import Experiment, make_experiment
from dowse.images.sets import demo_files, imagenet_names
from dowse.report import Attempt, Row, contact_sheet
from dowse.running.run import Finished
from dowse.store import Store
from dowse.store.row import Row as StoredRow

TARGET, SURROGATE = "imagenet_mobilenetv2", "imagenet_efficientnet_lite0"
METHODS = (
    {"name": "rgf", "title": "RGF"},
    {"name": "prgf", "title": "P-RGF"},
    {"name": "prgf", "title": "P-RGF + data prior", "subspace": 50},
)


def demo_experiment(out: Path, *, images: int, budget: int, norm: str, seed: int) -> Experiment:
    """The demo as an experiment on photographs that are copied, with a table of their labels, into the folder `out`."""
    folder = out / "photographs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(("file", "label"))
            for path, label in demo_files()[:images]:
                shutil.copyfile(path, folder / path.name)
                table.writerow((path.name, label))
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error}; give another folder with --out") from error
    said = {
        "name": "demo", "target": f"dowse:{TARGET}", "surrogate": f"dowse:{SURROGATE}", "images": str(folder),
        "norm": norm, "budget": budget, "seed": seed, "method": list(METHODS),
    }  # fmt: skip
    return make_experiment(said, source="the demo")


def draw_demo(out: Path, finished: Sequence[Finished], *, rows: int, title: str, subtitle: str) -> Path:
    """One picture, out/demo.png, of the first `rows` attacked images under every method, from the store in `out`."""
    by_title = {run.plan.title: {row.position: row for row in run.rows} for run in finished}
    done = [row for row in finished[0].rows if all(row.position in found for found in by_title.values())]
    first = [row for row in done if row.end is not End.ALREADY_WRONG][:rows]
    with Store(out) as store:
        sheet = [
            Row(
                store.original(one),
                _name(one.label),
                {title: _attempt(store, found[one.position]) for title, found in by_title.items()},
            )
            for one in first
        ]
    return contact_sheet(sheet, out / "demo.png", title=title, subtitle=subtitle)


def _attempt(store: Store, row: StoredRow) -> Attempt:
    found = store.adversarial(row)
    return Attempt(
        adversarial=store.original(row) if found is None else found,
        prediction=_name(row.predicted),
        queries=row.queries,
        fooled=row.success,
    )


def _name(label: int | None) -> str:
    return "unknown" if label is None else imagenet_names()[label]
