"""`dowse demo`: a real classifier, a surrogate of another family, real photographs, three methods side by side.

`--quick` has drawn shapes and small classifiers in their places, which are made on the spot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dowse.cli.failing import computing
from dowse.cli.options import Threads

if TYPE_CHECKING:
    from dowse.figures.contact_sheet import Attempt
    from dowse.running.run_under_way import Finished
    from dowse.store import Row, Store

TARGET, SURROGATE = "imagenet_mobilenetv2", "imagenet_efficientnet_lite0"
METHODS = (
    {"name": "rgf", "title": "RGF"},
    {"name": "prgf", "title": "P-RGF"},
    {"name": "dowse", "title": "Dowse"},
)
ROWS = 4  # of the picture


@dataclass(frozen=True, kw_only=True)
class Show:
    """What a demo shows.

    Attributes:
        target: Spec of what is attacked.
        surrogate: Spec of what helps.
        title: What picture and page are called.
        helper: What the surrogate is called.
        images: The image set.
        what: What its images are, in words.
        count: How many of them, if not said.
        budget: The most queries an image may cost, if not said.
        name: What tables call the target; None is a short form of its spec.
    """

    target: str
    surrogate: str
    title: str
    helper: str
    images: str
    what: str
    count: int
    budget: int
    name: str | None = None


FULL = Show(
    target=f"dowse:{TARGET}", surrogate=f"dowse:{SURROGATE}", title="How few queries fool MobileNetV2?",
    helper="EfficientNet-Lite0", images="demo:photographs", what="photographs", count=8, budget=1000,
)  # fmt: skip
QUICK = Show(
    target="torch:dowse.models.shapes:classifier", surrogate="torch:dowse.models.shapes:classifier#seed=1",
    title="How few queries fool a classifier of shapes?", helper="another such classifier", images="demo:shapes",
    what="drawn shapes", count=6, budget=200, name="shapes",
)  # fmt: skip


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the store, the picture and the report.")] = Path(
        "out/demo"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Drawn shapes and small classifiers: nothing to download, under a minute.")
    ] = False,
    images: Annotated[
        int | None, typer.Option(min=1, max=20, help="Photographs to attack; 8, with --quick 6 shapes.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="The most queries an image may cost; 1000, with --quick 200.")
    ] = None,
    norm: Annotated[str, typer.Option(help="l2 or linf.")] = "l2",
    seed: Annotated[int, typer.Option(help="Seed of all random streams.")] = 0,
    threads: Threads = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> None:
    """Attack MobileNetV2 on photographs with RGF, P-RGF and Dowse's own attack, and compare what they cost."""
    with computing():
        from dowse.cli.execute import execute
        from dowse.cli.manner import Manner
        from dowse.experiment.file import make_experiment
        from dowse.report import write_html

        shown = QUICK if quick else FULL
        count, most = images or shown.count, budget or shown.budget
        said = {
            "name": "demo", "target": shown.target, "surrogate": shown.surrogate, "norm": norm,
            "images": {"path": shown.images, "count": count}, "budget": most, "seed": seed, "method": list(METHODS),
        }  # fmt: skip
        experiment = make_experiment(said, source="the demo").changed(target_name=shown.name)
        typer.echo(
            f"{shown.target}, attacked with the help of {shown.surrogate}: {count} {shown.what}, {norm}, "
            f"{most} queries at most"
        )
        finished = execute(experiment, Manner(out=out, threads=threads))
        subtitle = f"surrogate {shown.helper}, {norm}, at most {most} queries an image, seed {seed}"
        typer.echo(f"picture: {_draw(out, finished, shown, subtitle)}")
        page = write_html(out, out / "report.html", title=shown.title)
        typer.echo(f"report: {page}")
        if show:
            typer.launch(page.absolute().as_uri())


def _draw(out: Path, finished: "Sequence[Finished]", shown: Show, subtitle: str) -> Path:
    """One picture, out/demo.png, of the first attacked images under every method, from the store in `out`."""
    from dowse.core.outcome import End
    from dowse.figures.contact_sheet import Strip, contact_sheet
    from dowse.images.class_names import class_name, class_names
    from dowse.store import Store

    names = class_names({"target": shown.target}, shown.images)
    by_title = {run.plan.title: {row.position: row for row in run.rows} for run in finished}
    done = [row for row in finished[0].rows if all(row.position in found for found in by_title.values())]
    first = [row for row in done if row.end is not End.ALREADY_WRONG][:ROWS]
    with Store(out) as store:
        sheet = [
            Strip(
                store.original(one),
                class_name(names, one.label),
                {title: _attempt(store, found[one.position], names) for title, found in by_title.items()},
            )
            for one in first
        ]
    return contact_sheet(sheet, out / "demo.png", title=shown.title, subtitle=subtitle)


def _attempt(store: "Store", row: "Row", names: Sequence[str]) -> "Attempt":
    from dowse.figures.contact_sheet import Attempt
    from dowse.images.class_names import class_name

    found = store.adversarial(row)
    return Attempt(
        adversarial=store.original(row) if found is None else found,
        prediction=class_name(names, row.predicted),
        queries=row.queries,
        fooled=row.success,
    )
