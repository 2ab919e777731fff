"""`dowse figure`: the paper's figures, computed on the models and images at hand and drawn in the paper's layout."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dowse.cli.failing import computing
from dowse.cli.options import Threads, command_line, settings_group, taking
from dowse.figures.figure_settings import FigureSettings

if TYPE_CHECKING:
    from rich.progress import Progress


@taking(settings=settings_group("What to compute it from", FigureSettings))
def figure(
    name: Annotated[str, typer.Argument(help="figure1, figure1a to figure1e, or figure2.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for NAME.svg, NAME.png and NAME.json.")],
    settings: dict[str, Any],
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw again from NAME.json; compute nothing.")] = False,
    threads: Threads = None,
) -> None:
    """Draw one of the paper's figures: its numbers are computed, kept as NAME.json, and drawn as SVG and PNG."""
    with computing():
        import torch

        from dowse.figures.catalogue import find_figure, make_figure

        if threads is not None:
            torch.set_num_threads(threads)
        find_figure(name)
        with _bars() as bars:
            made = make_figure(
                name, FigureSettings(**settings), out, redraw=redraw, tell=_Telling(bars), command=command_line()
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
