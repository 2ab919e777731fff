"""The report as one HTML file that needs no network: text, tables, styles, script, data and pictures inside."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dowse.images.class_names import read_names
from dowse.machine.files import write_file
from dowse.report.data.cells import MEASURES, fill, how_ranked
from dowse.report.data.gather import gather
from dowse.report.data.model import Report
from dowse.report.data.names import captions
from dowse.report.html import listings
from dowse.report.html.facts import commands, facts, failures, leading_columns, specs
from dowse.report.html.gallery import Gallery, collect
from dowse.report.html.script_data import script_data
from dowse.report.html.shell import render_page
from dowse.store import Store

SCRIPTS = ("base", "axes", "table", "legend", "reading", "curves", "medians", "pairs", "gallery", "dialog", "traces",
           "images", "ready")  # in the order in which they need each other  # fmt: skip


def write_html(
    store_folder: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    experiment: str | os.PathLike[str] | None = None,
    gallery: int | None = None,
    budget: int | None = None,
    title: str | None = None,
    classes: Sequence[str] | Path | None = None,
) -> Path:
    """Write the report of a store as one HTML file and return where it is.

    Args:
        store_folder: The folder of the store, or a packed file.
        path: The file; None is report.html in that folder, or beside a packed file under its name.
        experiment: The file of an experiment whose runs alone are shown; None shows the whole store.
        gallery: Adversarial images shown of each run; None is 24, fewer where that makes more than 200 in all.
        budget: Read every run with this smaller budget; None takes each run's own.
        title: What the page is called; None makes a title of the targets.
        classes: What the classes are called, in the order of the labels, or a file with a line a class; None looks
            for names itself.
    """
    folder = Path(store_folder)
    usual = folder.with_suffix(".html") if folder.is_file() else folder / "report.html"
    place = usual if path is None else Path(path)
    with Store(folder) as store:
        names = read_names(classes) if isinstance(classes, Path) else classes
        report = gather(store, experiment=experiment, budget=budget, title=title, classes=names)
        options = {"--experiment": experiment, "--out": path, "--gallery": gallery, "--budget": budget,
                   "--title": title, "--classes": classes if isinstance(classes, Path) else None}  # fmt: skip
        words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        again = shlex.join(["dowse", "report", str(store_folder), *words])
        aside = " but for the names of its classes, which were given in Python" if classes and names is classes else ""
        page = render(report, collect(report, store, a_run=gallery), commands(report, again, aside))
    write_file(place, page)
    return place


def render(report: Report, gallery: Gallery, given: Sequence[tuple[str, str]]) -> str:
    """The page of a report; `given` are the commands that it came from, each with a note."""
    missing = failures(report)
    return render_page(
        "page.html",
        title=report.title,
        sections=_sections(report, gallery, missing),
        data=script_data(report, gallery),
        scripts=SCRIPTS,
        filters=(fill, how_ranked),
        report=report,
        gallery=gallery,
        commands=given,
        lead=leading_columns(report),
        specs=specs(report),
        facts=facts(report),
        captions=captions(report.tables),
        measures=MEASURES,
        failures=missing,
        speeds=listings.speeds(report),
    )


def _sections(report: Report, gallery: Gallery, missing: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """The sections that have anything to show, in order: each one's heading, and its word among the links."""
    pairs = any(len(group.entries) > 1 for _, group in report.columns)
    sections = (
        ("results", "Results", "Results", True),
        ("curves", "Success against queries", "Curves", True),
        ("medians", "Medians", "Medians", True),
        ("pairs", "Method against method", "Comparisons", pairs),
        ("gallery", "Gallery", "Gallery", bool(gallery.strips)),
        ("traces", "Traces", "Traces", any(gallery.traces.values())),
        ("images", "Every image", "Images", True),
        ("failures", "What did not work", "Failures", bool(missing)),
        ("setup", "Speed and commands", "Commands", True),
    )
    return {key: (name, link) for key, name, link, shown in sections if shown}
