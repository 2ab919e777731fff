"""`dowse rows`: the rows of a store, a line an image, as CSV or JSON."""

import math
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dowse.cli.failing import failing_kindly
from dowse.cli.options import StoreFolder

ABOUT_THE_RUN = ("title", "target", "surrogate", "method", "options", "norm", "eps")


def rows(
    folder: StoreFolder,
    form: Annotated[Literal["csv", "json"], typer.Option("--format", help="How they are written.")] = "csv",
    run: Annotated[str | None, typer.Option(help="Only the run whose id begins like this.")] = None,
) -> None:
    """Print the rows of a store."""
    with failing_kindly():
        from dowse.machine.csv_and_json import csv_text, json_text

        found = collect(folder, run)
        typer.echo(json_text(found) if form == "json" else csv_text(columns(), found), nl=False)


def columns() -> list[str]:
    """What a row has, in this order."""
    from dowse.store import Row

    own = [field.name for field in fields(Row) if field.name not in ("run", "task", "session")]
    return ["run", *ABOUT_THE_RUN, "success", *own, "refused_share"]


def collect(folder: Path, run: str | None) -> list[dict[str, Any]]:
    """The rows of all runs, or of those whose id begins so, as plain values, each with what its run is about."""
    from dowse.errors import InputError
    from dowse.store import Store

    with Store(folder) as store:
        runs = store.runs()
        about = {
            one.id: {"title": one.title, **{word: one.content[word] for word in ABOUT_THE_RUN[1:]}}
            for one in runs
            if run is None or one.id.startswith(run)
        }
        for one in runs:
            if one.id in about:
                eps = store.radius(one.content, islice(store.rows(one.id), 1))
                about[one.id]["eps"] = None if math.isnan(eps) else eps
        if run is not None and not about:
            known = ", ".join(f"{one.id} ({one.title})" for one in runs) or "none yet"
            raise InputError(f"no run in {folder} has an id that begins with {run!r}: there are {known}")
        return [
            {word: about[row.run][word] if word in ABOUT_THE_RUN else getattr(row, word) for word in columns()}
            for row in store.rows()
            if row.run in about
        ]
