"""`dowse compare`: the runs of two stores against each other, image by image."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dowse.cli.failing import failing_kindly


class Format(StrEnum):
    """How a comparison is written."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"


def compare(
    first: Annotated[Path, typer.Argument(help="The folder of one store: before.")],
    second: Annotated[Path, typer.Argument(help="The folder of the other: after.")],
    form: Annotated[Format, typer.Option("--format", help="text, csv, json or markdown.")] = Format.TEXT,
    out: Annotated[Path | None, typer.Option(help="The file; printed if not said.")] = None,
) -> None:
    """Compare the runs of two stores: the same run by its content, else the same method, target and norm."""
    with failing_kindly():
        from dowse.report.versus import compare_stores
        from dowse.report.writing import write_file

        text = compare_stores(first, second).to(form)
        if out is not None:
            write_file(out, text)
    typer.echo(text if out is None else str(out), nl=out is not None)
