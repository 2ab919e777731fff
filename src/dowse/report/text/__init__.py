"""The report as text: the forms by name, and a function that makes one of a store."""

import os
from collections.abc import Callable
from pathlib import Path

from dowse.errors import choose
from dowse.machine.files import write_file
from dowse.report.data.gather import gather
from dowse.report.data.model import Report
from dowse.report.text.csv_json import to_csv, to_json
from dowse.report.text.latex import to_latex
from dowse.report.text.markdown import to_markdown
from dowse.store import Store

FORMATS: dict[str, Callable[[Report], str]] = {
    "csv": to_csv, "json": to_json, "latex": to_latex, "markdown": to_markdown,
}  # fmt: skip


def write_text(
    store_folder: str | os.PathLike[str],
    form: str,
    path: str | os.PathLike[str] | None = None,
    *,
    experiment: str | os.PathLike[str] | None = None,
    budget: int | None = None,
    title: str | None = None,
) -> str:
    """The report of a store as text, which is returned, and written to a file if a path is given.

    Args:
        store_folder: The folder of the store.
        form: "csv" (a line a run), "json" (runs, curves, comparisons, processes), "latex" (booktabs) or "markdown".
        path: The file; None writes none.
        experiment: The file of an experiment whose runs alone are told of; None tells of the whole store.
        budget: Read every run with this smaller budget; None takes each run's own.
        title: What the report is called; None makes a title of the targets.
    """
    choose("format", form, FORMATS)
    with Store(Path(store_folder)) as store:
        text = FORMATS[form](gather(store, experiment=experiment, budget=budget, title=title))
    if path is not None:
        write_file(Path(path), text)
    return text
