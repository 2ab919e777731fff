"""The report as one HTML file that needs no network: text, tables, styles, script, data and pictures inside."""

import base64
import hashlib
import os
import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from dowse.report import cells, lead, sections, setup
from dowse.report.failures import failures
from dowse.report.gallery import Gallery, collect
from dowse.report.gather import gather
from dowse.report.markup import Markup, joined, json_inside, tag
from dowse.report.model import Report
from dowse.report.names import read_names
from dowse.report.numbers import captions
from dowse.report.payload import payload
from dowse.report.writing import write_file
from dowse.store import Store

SCRIPTS = (
    "base",
    "axes",
    "table",
    "legend",
    "reading",
    "curves",
    "medians",
    "pairs",
    "gallery",
    "dialog",
    "traces",
    "images",
)
SECTIONS = {
    "results": "Results", "curves": "Success against queries", "medians": "Medians", "pairs": "Method against method",
    "gallery": "Gallery", "traces": "Traces", "images": "Every image", "failures": "What did not work",
    "setup": "Speed and commands",
}  # fmt: skip

LEFT_OUT = (
    "Left out on paper: the rows of every image, the names of images that failed, and what the page shows on a click "
    "(further images of the gallery, other targets' comparisons and traces)."
)
LINKS = {"curves": "Curves", "pairs": "Comparisons", "images": "Images", "failures": "Failures", "setup": "Commands"}


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
        store_folder: The folder of the store.
        path: The file; None is report.html in that folder.
        experiment: The file of an experiment whose runs alone are shown; None shows the whole store.
        gallery: Adversarial images shown of each run; None is 24, fewer where that makes more than 200 in all.
        budget: Read every run with this smaller budget; None takes each run's own.
        title: What the page is called; None makes a title of the targets.
        classes: What the classes are called, in the order of the labels, or a file with a line a class; None looks
            for names itself.
    """
    folder = Path(store_folder)
    place = folder / "report.html" if path is None else Path(path)
    with Store(folder) as store:
        names = read_names(classes) if isinstance(classes, Path) else classes
        report = gather(store, experiment=experiment, budget=budget, title=title, classes=names)
        options = {"--experiment": experiment, "--out": path, "--gallery": gallery, "--budget": budget,
                   "--title": title, "--classes": classes if isinstance(classes, Path) else None}  # fmt: skip
        words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        again = shlex.join(["dowse", "report", str(store_folder), *words])
        aside = " but for the names of its classes, which were given in Python" if classes and names is classes else ""
        page = render(report, collect(report, store, a_run=gallery), setup.commands(report, again, aside))
    write_file(place, page)
    return place


def render(report: Report, gallery: Gallery, commands: Markup) -> str:
    """The page of a report; `commands` is how it came about."""
    parts, style = _asset(*(f"{name}.js" for name in SCRIPTS)), _asset("page.css")
    script = f'"use strict";\n(() => {{\n{parts}\n}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    missing = failures(report)
    names = {key: name for key, name in SECTIONS.items() if key != "failures" or missing is not None}
    if not gallery.strips:
        names.pop("gallery")
    if not any(gallery.traces.values()):
        names.pop("traces")
    if not any(len(group.entries) > 1 for table in report.tables for group in table.groups):
        names.pop("pairs")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{report.title} · Dowse"),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the results", href="#results", class_="skip"),
        _header(report, names),
        tag("main", *(_section(key, name, report, gallery, missing, commands) for key, name in names.items())),
        tag(
            "footer",
            tag("p", LEFT_OUT, class_="paper"),
            tag("p", "Made with Dowse. All of it is in this one file; nothing is loaded from anywhere."),
        ),
        _dialog(),
        tag("script", json_inside(payload(report, gallery)), type="application/json", id="data"),
        tag("script", Markup(script)),
    )
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def _header(report: Report, names: dict[str, str]) -> Markup:
    links = [tag("a", LINKS.get(key, name), href=f"#{key}") for key, name in names.items()]
    toggle = tag("button", "Theme", type="button", id="theme", aria_label="Colours: as the system has them")
    return joined(
        tag("nav", tag("div", tag("span", "Dowse", class_="brand"), tag("div", *links, class_="links"), toggle),
            aria_label="Sections"),
        tag("header", tag("p", "A black-box robustness report", class_="kicker"), tag("h1", report.title),
            lead.lead(report), lead.unfinished(report), sections.facts(report)),
    )  # fmt: skip


def _section(key: str, name: str, report: Report, gallery: Gallery, missing: Markup | None, commands: Markup) -> Markup:
    headed = list(enumerate(zip(captions(report.tables), report.tables, strict=True)))
    parts: list[Markup | None] = [tag("h2", name)]
    match key:
        case "results":
            parts += [_note(
                "ASR is the share of images fooled, AVG. Q the mean number of queries over the successes, as in the "
                "paper. AVG. Q flatters a method that fails on hard images, so the median stands beside it, with every "
                "failure counted as infinite. Under each number is its 95 % interval; the best of a column is bold."
            ), _controls(report)]  # fmt: skip
            for number, (caption, table) in headed:
                ranked = cells.how_ranked(table)
                parts += [
                    tag("h3", caption),
                    _note(ranked) if ranked else None,
                    sections.result_table(report, number, caption),
                    sections.further_table(table, caption),
                    setup.options_table(table, caption),
                ]
        case "curves":
            parts += [_note("The share of images fooled within so many queries; bands are pointwise 95 % intervals "
                            "(Wilson). Choose methods in the legend; point at a chart, touch it or use the arrow keys "
                            "for its values.")]  # fmt: skip
            for number, (caption, _) in headed:
                parts += [tag("h3", caption), _slot("legend", number), _slot("curves", number)]
        case "medians":
            parts += [_note("Median queries with failures counted as infinite, and its 95 % interval from order "
                            "statistics. An arrow goes on to infinity.")]  # fmt: skip
            for number, (caption, _) in headed:
                parts += [tag("h3", caption), _slot("medians", number)]
        case "pairs":
            parts += [_note("On the images that both attacked: how often the method of the row took fewer queries than "
                            "that of the column, and how often more. A failure takes one query more than the budget. "
                            "Colour and p are those of Wilcoxon's signed-rank test, two-sided, not corrected for the "
                            "number of comparisons: blue where its ranks speak for the row, orange for the column."),
                      _slot("pairs")]  # fmt: skip
        case "gallery":
            more = " There are more in the store; --gallery N shows N of each run." if gallery.limited else ""
            parts += [_note("Each image as it was, what each method added to it, magnified around grey, and what the "
                            f"target saw. Click to enlarge.{more}"), _slot("gallery")]  # fmt: skip
        case "traces":
            more = " This page has no room for the traces of all images; the store has them." if gallery.partial else ""
            parts += [_note(f"What went on inside, against the queries spent, for the methods in the legend.{more}"),
                      _slot("traces")]  # fmt: skip
        case "images":
            parts += [_slot("images")]
        case "failures":
            parts += [_note("Images that were not fooled or could not be used, by the reason."), missing]
        case _:
            parts += [setup.speeds(report), tag("h3", "To reproduce"), commands]
    return tag("section", *parts, id=key, aria_label=name)


def _controls(report: Report) -> Markup:
    targets = dict.fromkeys(group.name for table in report.tables for group in table.groups)
    options = [tag("option", "All targets", value=""), *(tag("option", name, value=name) for name in targets)]
    return tag(
        "div",
        tag("label", "Methods ", tag("input", type="search", id="filter", placeholder="Filter, e.g. P-RGF")),
        tag("label", "Target ", tag("select", *options, id="target")) if len(targets) > 1 else None,
        tag("span", "", id="shown", class_="note", role="status"),
        class_="controls",
    )  # fmt: skip


def _dialog() -> Markup:
    buttons = [
        tag("button", words, type="button", class_=name, aria_label=label)
        for name, words, label in (("back", "←", "The image before"), ("next", "→", "The next image"),
                                   ("close", "Close", "Close"))
    ]  # fmt: skip
    return tag("dialog", tag("div", tag("h2", "", id="enlarged"), *buttons, class_="bar"), tag("div", class_="large"),
               id="dialog", aria_labelledby="enlarged")  # fmt: skip


def _note(text: str) -> Markup:
    return tag("p", text, class_="explain")


def _slot(name: str, table: int | None = None) -> Markup:
    return tag("div", class_=f"slot-{name}", data_t=table)


def _asset(*names: str) -> str:
    folder = files("dowse.report") / "page"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)
