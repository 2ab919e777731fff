"""`dowse compare`: the runs of two stores against each other, image by image."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dowse.cli.failing import failing_kindly

Form = Literal["text", "csv", "json", "markdown"]


def compare(
    first: Annotated[Path, typer.Argument(help="The folder of one store, or a packed file: before.")],
    second: Annotated[Path, typer.Argument(help="The folder of the other: after.")],
    form: Annotated[Form, typer.Option("--format", help="How it is written.")] = "text",
    out: Annotated[Path | None, typer.Option(help="The file; printed if not said.")] = None,
) -> None:
    """Compare the runs of two stores: the same run by its content, else the same method, target and norm."""
    with failing_kindly():
        from dowse.machine.files import write_file
        from dowse.report import compare_stores

        text = compare_stores(first, second).to(form)
        if out is not None:
            write_file(out, text)
    typer.echo(text if out is None else str(out), nl=out is not None)
