"""`dowse demo`: attack a real classifier on real photographs, and show what came of it."""

from pathlib import Path
from typing import Annotated

import typer

from dowse.cli.failing import failing_kindly


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
    """Attack MobileNetV2 on photographs with RGF, P-RGF and P-RGF with the data prior, and compare what they cost."""
    from dowse.machine.cpu import ensure_fast_malloc

    ensure_fast_malloc()
    with failing_kindly():
        from dowse.cli.demo_run import SURROGATE, TARGET, demo_experiment, draw_demo
        from dowse.cli.running import Manner, execute
        from dowse.report import write_html

        experiment = demo_experiment(out, images=images, budget=budget, norm=norm, seed=seed)
        typer.echo(
            f"{TARGET}, attacked with the help of {SURROGATE}: {images} photographs, {norm}, {budget} queries at most"
        )
        finished = execute(experiment, Manner(out=out, threads=threads))
        subtitle = f"surrogate EfficientNet-Lite0, {norm}, at most {budget} queries an image, seed {seed}"
        picture = draw_demo(out, finished, rows=4, title="How few queries fool MobileNetV2?", subtitle=subtitle)
        typer.echo(f"picture: {picture}")
        report = write_html(out, out / "report.html", title="How few queries fool MobileNetV2?")
        typer.echo(f"report: {report}")
