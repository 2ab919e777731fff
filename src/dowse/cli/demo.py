"""`dowse demo`: attack a real classifier on real photographs and draw what came of it."""

from pathlib import Path
from typing import Annotated

import typer

CAPTION = "AVG. Q over successes; median with failures infinite; mean with failures at the budget"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("out/demo"),
    images: Annotated[int, typer.Option(min=1, max=20, help="Photographs to attack.")] = 8,
    budget: Annotated[int, typer.Option(min=1, help="The most queries an image may cost.")] = 1000,
    norm: Annotated[str, typer.Option(help="l2 or linf.")] = "l2",
    seed: Annotated[int, typer.Option(help="Seed of all random streams.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Torch threads; by default one a core.")] = None,
) -> None:
    """Attack MobileNetV2 on photographs with RGF, P-RGF and P-RGF with the data prior, and compare what they cost."""
    from dowse.tuning import ensure_fast_malloc

    ensure_fast_malloc()
    import torch
    from rich.console import Console
    from rich.table import Table

    from dowse.cli.progress import method_bars
    from dowse.demo import METHODS, SURROGATE, TARGET, draw_demo, run_demo

    if threads is not None:
        torch.set_num_threads(threads)
    console = Console()
    console.print(f"Attacking [bold]{TARGET}[/] with the help of [bold]{SURROGATE}[/]: {images} photographs, ", end="")
    console.print(f"{norm}, at most {budget} queries each.")
    with method_bars(list(METHODS), images, console) as advance:
        done = run_demo(images=images, budget=budget, norm=norm, seed=seed, on_progress=advance)
    table = Table("method", "ASR", "AVG. Q", "median Q", "mean Q", caption=CAPTION, caption_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for title, result in done.results.items():
        s = result.summary()
        table.add_row(
            title, f"{s.asr:.1%}", f"{s.mean_queries:.0f}", f"{s.median_queries:.0f}", f"{s.mean_queries_budget:.0f}"
        )
    console.print(table)
    wrong = next(iter(done.results.values())).summary().already_wrong
    if wrong:
        console.print(
            f"{wrong} of {len(done.images.images)} photographs were misclassified unchanged and are left out."
        )
    picture = draw_demo(
        done,
        out / "demo.png",
        rows=4,
        title="How few queries fool MobileNetV2?",
        subtitle=f"surrogate EfficientNet-Lite0, {norm}, at most {budget} queries an image, seed {seed}",
    )
    console.print(f"Picture: [bold]{picture}[/]")
