"""`dowse demo`: a real classifier, a surrogate of another family, real photographs, three methods side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dowse.cli.failing import failing_kindly

if TYPE_CHECKING:
    from dowse.figures.contact_sheet import Attempt
    from dowse.running.run_under_way import Finished
    from dowse.store import Store
    from dowse.store.row import Row as StoredRow

TARGET, SURROGATE = "imagenet_mobilenetv2", "imagenet_efficientnet_lite0"
METHODS = (
    {"name": "rgf", "title": "RGF"},
    {"name": "prgf", "title": "P-RGF"},
    {"name": "dowse", "title": "Dowse"},
)
TITLE = "How few queries fool MobileNetV2?"
ROWS = 4  # of the picture


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the store, the picture and the report.")] = Path(
        "out/demo"
    ),
    images: Annotated[int, typer.Option(min=1, max=20, help="Photographs to attack.")] = 12,
    budget: Annotated[int, typer.Option(min=1, help="The most queries an image may cost.")] = 1000,
    norm: Annotated[str, typer.Option(help="l2 or linf.")] = "l2",
    seed: Annotated[int, typer.Option(help="Seed of all random streams.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Torch threads; by default one a core.")] = None,
) -> None:
    """Attack MobileNetV2 on photographs with RGF, P-RGF and Dowse's own attack, and compare what they cost."""
    from dowse.machine.cpu import ensure_fast_malloc

    ensure_fast_malloc()
    with failing_kindly():
        from dowse.cli.running import Manner, execute
        from dowse.experiment.file import make_experiment
        from dowse.images.sources import PHOTOGRAPHS
        from dowse.report import write_html

        said = {
            "name": "demo", "target": f"dowse:{TARGET}", "surrogate": f"dowse:{SURROGATE}", "norm": norm,
            "images": {"path": PHOTOGRAPHS, "count": images}, "budget": budget, "seed": seed, "method": list(METHODS),
        }  # fmt: skip
        experiment = make_experiment(said, source="the demo")
        typer.echo(
            f"{TARGET}, attacked with the help of {SURROGATE}: {images} photographs, {norm}, {budget} queries at most"
        )
        finished = execute(experiment, Manner(out=out, threads=threads))
        subtitle = f"surrogate EfficientNet-Lite0, {norm}, at most {budget} queries an image, seed {seed}"
        typer.echo(f"picture: {_draw(out, finished, subtitle)}")
        typer.echo(f"report: {write_html(out, out / 'report.html', title=TITLE)}")


def _draw(out: Path, finished: "Sequence[Finished]", subtitle: str) -> Path:
    """One picture, out/demo.png, of the first attacked images under every method, from the store in `out`."""
    from dowse.core.result import End
    from dowse.figures.contact_sheet import Row, contact_sheet
    from dowse.store import Store

    by_title = {run.plan.title: {row.position: row for row in run.rows} for run in finished}
    done = [row for row in finished[0].rows if all(row.position in found for found in by_title.values())]
    first = [row for row in done if row.end is not End.ALREADY_WRONG][:ROWS]
    with Store(out) as store:
        sheet = [
            Row(
                store.original(one),
                _name(one.label),
                {title: _attempt(store, found[one.position]) for title, found in by_title.items()},
            )
            for one in first
        ]
    return contact_sheet(sheet, out / "demo.png", title=TITLE, subtitle=subtitle)


def _attempt(store: "Store", row: "StoredRow") -> "Attempt":
    from dowse.figures.contact_sheet import Attempt

    found = store.adversarial(row)
    return Attempt(
        adversarial=store.original(row) if found is None else found,
        prediction=_name(row.predicted),
        queries=row.queries,
        fooled=row.success,
    )


def _name(label: int | None) -> str:
    from dowse.images.class_names import imagenet_names

    return "unknown" if label is None else imagenet_names()[label]
