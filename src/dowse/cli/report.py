"""`dowse report`: a store as a page to look at, or as a table for a program or a paper."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dowse.cli.failing import failing_kindly
from dowse.cli.options import StoreFolder

Form = Literal["html", "csv", "json", "latex", "markdown"]


def report(
    folder: StoreFolder,
    out: Annotated[
        Path | None, typer.Option(help="The file; HTML goes to FOLDER/report.html or FILE.html, text is printed.")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="How it is written.")] = "html",
    experiment: Annotated[
        Path | None, typer.Option(help="Tell of the runs of this experiment alone, not of the whole store.")
    ] = None,
    gallery: Annotated[
        int | None,
        typer.Option(min=0, help="Adversarial images of each run; 24, at most about 200 in all, if not said."),
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Read every run with this smaller budget.")] = None,
    title: Annotated[str | None, typer.Option(help="What the page is called.")] = None,
    classes: Annotated[Path | None, typer.Option(help="Names of the classes, a line a class, for the page.")] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write the report of a store: one HTML file that needs nothing else, or a table."""
    with failing_kindly():
        from dowse.report import write_html, write_text

        if form == "html":
            place = write_html(
                folder, out, experiment=experiment, gallery=gallery, budget=budget, title=title, classes=classes
            )
            typer.echo(str(place))
            if show:
                typer.launch(place.absolute().as_uri())
            return
        text = write_text(folder, form, out, experiment=experiment, budget=budget, title=title)
    typer.echo(text if out is None else str(out), nl=out is not None)
