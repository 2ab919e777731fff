"""`dowse figure`: the paper's figures, computed on the models and images at hand and drawn in the paper's layout."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dowse.cli.failing import failing_kindly

if TYPE_CHECKING:
    from rich.progress import Progress


def figure(
    name: Annotated[str, typer.Argument(help="figure1, figure1a to figure1e, or figure2.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for NAME.svg, NAME.png and NAME.json.")],
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw again from NAME.json; compute nothing.")] = False,
    store: Annotated[Path | None, typer.Option(help="figure2: the folder of the store.")] = None,
    experiment: Annotated[
        Path | None, typer.Option(help="figure2: draw the runs of this experiment alone, not the whole store.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="What is attacked; a torch module.")] = None,
    surrogate: Annotated[str | None, typer.Option(help="What gives the transfer gradient.")] = None,
    images: Annotated[
        str | None, typer.Option(help="An image set; by default $DOWSE_SHARED's, else the demo's photographs.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="How many images, the first classified rightly.")] = None,
    norm: Annotated[str | None, typer.Option(help="l2 or linf.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random streams.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="The most queries an attack may cost.")] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="1c to 1e: the most iterations to follow.")] = None,
    q: Annotated[int | None, typer.Option(min=1, help="Directions of each gradient estimate.")] = None,
    norm_period: Annotated[
        int | None, typer.Option(min=1, help="1c to 1e: iterations between estimates of the norm.")
    ] = None,
    past_success: Annotated[
        bool, typer.Option("--past-success", help="1c to 1e: follow images on that fool the target.")
    ] = False,
    lambdas: Annotated[int | None, typer.Option(min=2, help="1c: how many fixed λ from 1/D to 1.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="1b: the largest S.")] = None,
    slopes: Annotated[int | None, typer.Option(min=2, help="1b: slopes measured at each image.")] = None,
    image: Annotated[str | None, typer.Option(help="1a: the image to show, by name.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Torch threads; by default one a core.")] = None,
) -> None:
    """Draw one of the paper's figures: its numbers are computed, kept as NAME.json, and drawn as SVG and PNG."""
    from dowse.machine.cpu import ensure_fast_malloc

    ensure_fast_malloc()
    with failing_kindly():
        import torch

        from dowse.figures import FigureSettings, find_figure, make_figure
        from dowse.wording import without_password

        if threads is not None:
            torch.set_num_threads(threads)
        find_figure(name)
        words: dict[str, Any] = {
            "target": target, "surrogate": surrogate, "images": images, "count": count, "norm": norm, "seed": seed,
            "budget": budget, "iterations": iterations, "q": q, "past_success": past_success,
            "norm_period": norm_period, "lambdas": lambdas,
            "samples": samples, "slopes": slopes, "image": image, "store": store, "experiment": experiment,
        }  # fmt: skip
        setting = FigureSettings(**{word: value for word, value in words.items() if value is not None})
        with _bars() as bars:
            made = make_figure(
                name,
                setting,
                out,
                redraw=redraw,
                tell=_Telling(bars),
                command=["dowse", *map(without_password, sys.argv[1:])],
            )
    for sentence in made.sentences:
        typer.echo(sentence)
    for file in made.files:
        typer.echo(file)


def _bars() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True))


class _Telling:
    """Moves a bar for each thing that is computed; elsewhere than in a terminal it writes a line each time."""

    def __init__(self, bars: "Progress") -> None:
        self.bars = bars
        self.tasks: dict[str, Any] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        if not self.bars.console.is_terminal:
            if self.tasks.get(what) != done:
                typer.echo(f"{what}: {done} of {total}", err=True)
            self.tasks[what] = done
            return
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, total=total)
        self.bars.update(self.tasks[what], completed=done)
