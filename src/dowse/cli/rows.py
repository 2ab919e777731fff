"""`dowse rows`: the rows of a store, a line an image, as CSV or JSON."""

import csv
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dowse.cli.failing import failing_kindly

ABOUT_THE_RUN = ("title", "target", "surrogate", "method", "options", "norm", "eps")


class Format(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSON = "json"


def rows(
    folder: Annotated[Path, typer.Argument(help="The folder of the store.")],
    form: Annotated[Format, typer.Option("--format", help="csv or json.")] = Format.CSV,
    run: Annotated[str | None, typer.Option(help="Only the run whose id begins like this.")] = None,
) -> None:
    """Print the rows of a store."""
    with failing_kindly():
        found = list(collect(folder, run))
    if form is Format.JSON:
        typer.echo(json.dumps(found, indent=1))
    elif found:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()} for row in found
        )


def collect(folder: Path, run: str | None) -> list[dict[str, Any]]:
    """All rows as plain values, each with what its run is about."""
    from dataclasses import asdict

    from dowse.store import Store

    with Store(folder) as store:
        about = {
            one.id: {"title": one.title, **{word: one.content[word] for word in ABOUT_THE_RUN[1:]}}
            for one in store.runs()
            if run is None or one.id.startswith(run)
        }
        return [
            {
                "run": row.run,
                **about[row.run],
                "success": row.success,
                **_without(asdict(row), "run", "task", "session"),
            }
            for row in store.rows()
            if row.run in about
        ]


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}
