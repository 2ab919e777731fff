"""The parts of the page that need no script: facts, tables, speeds, commands."""

import math
import shlex
from collections.abc import Iterable
from pathlib import Path

from dowse.report import cells, numbers
from dowse.report.markup import Markup, joined, tag
from dowse.report.model import Entry, Group, Report, Table
from dowse.report.names import NORMS, short_target, subscripts


def facts(report: Report) -> Markup:
    """What was run, in a few words each."""
    entries = report.entries
    groups = [group for table in report.tables for group in table.groups]
    surrogates = _unique(name for entry in entries for name in entry.run.content["surrogate"])
    versions = _unique(f"{name} {of}" for s in report.sessions for name, of in s.versions.items() if name != "platform")
    said: list[tuple[str, Markup]] = [
        ("Targets", _codes(_unique(group.target for group in groups))),
        ("Surrogates", _codes(surrogates) if surrogates else Markup("none")),
        ("Images", _lines(_images(groups))),
        ("Ball", _lines(_unique(numbers.ball(table) for table in report.tables))),
        ("Budget", _lines(_unique(f"{table.budget:,} queries an image" for table in report.tables))),
        ("Loss and seed", _lines(_unique(_loss_and_seed(entry) for entry in entries))),
        ("Versions", _lines([", ".join(versions)])),
        ("Date", _lines([_dates(report)])),
    ]
    return tag("dl", *(tag("div", tag("dt", word), tag("dd", value)) for word, value in said), class_="facts")


def result_table(report: Report, number: int) -> Markup:
    """A table in the paper's form: methods down, targets across, best cells bold, intervals under the numbers."""
    table = report.tables[number]
    width = len(cells.PAPER)
    heads = [
        tag("th", group.name, colspan=width, scope="colgroup", class_="target", data_g=g, title=group.target)
        for g, group in enumerate(table.groups)
    ]
    names = [
        tag("th", _sorter(column.name, column.meaning), scope="col", aria_sort="none", data_g=g,
            class_="first" if c == 0 else None)
        for g in range(len(table.groups)) for c, column in enumerate(cells.PAPER)
    ]  # fmt: skip
    body = []
    for method, filled in cells.fill(table).items():
        marked = tag("span", "", class_="swatch", data_m=report.methods.index(method), aria_hidden="true")
        row = [tag("th", marked, method_name(method), scope="row", data_v=method)]
        row += [_cell(cell, g, c) for g, group in enumerate(filled) for c, cell in enumerate(group)]
        body.append(tag("tr", *row))
    head = tag(
        "thead",
        tag("tr", tag("th", _sorter("Method", "Sort by name."), scope="col", rowspan=2, aria_sort="none"), *heads),
        tag("tr", *names),
    )
    return tag(
        "div",
        tag("table", head, tag("tbody", *body), class_="results", data_t=number),
        class_="scroll", tabindex="0", role="region", aria_label=f"Results, {numbers.caption(table)}",
    )  # fmt: skip


def further_table(table: Table) -> Markup:
    """What the paper's table leaves out: how many images, those left out, the mean with failures at the budget."""
    rows = [
        tag(
            "tr",
            tag("th", method_name(entry.method), scope="row"),
            tag("td", group.name, class_="text"),
            *_further(entry),
        )
        for group in table.groups
        for entry in group.entries
    ]
    heads = ("Method", "Target", "Images", "Fooled", "Already wrong", "Unfinished", "Mean, failures at the budget",
             "Queries in all", "Queries per second")  # fmt: skip
    head = tag("thead", tag("tr", *(tag("th", word, scope="col", class_=_text(i)) for i, word in enumerate(heads))))
    return tag(
        "details",
        tag("summary", "Counts, means with failures at the budget, queries per second"),
        tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll", tabindex="0", role="region",
            aria_label="Counts and means"),
    )  # fmt: skip


def unfinished(report: Report) -> Markup | None:
    """A warning where images are not done yet; None where all are."""
    left = sum(entry.unfinished for entry in report.entries)
    runs = sum(entry.unfinished > 0 for entry in report.entries)
    if not left:
        return None
    said = (
        f"{left:,} images of {runs} of the {len(report.entries)} runs are not done yet. Easy images end first, so "
        "these numbers flatter the runs that are under way."
    )
    return tag("p", said, class_="warning", role="note")


def lead(report: Report) -> Markup:
    """What came out, in a sentence for each target."""
    said = [_sentence(table, group) for table in report.tables for group in table.groups]
    return tag("div", *(tag("p", one) for one in said[:4]), class_="lead")


def commands(report: Report) -> Markup:
    """The exact commands, each to be copied, with when and on what they ran."""
    lines: dict[str, list[float]] = {}
    for session in report.sessions:
        if session.command:
            lines.setdefault(shlex.join(session.command), []).append(session.started)
    shown = [
        tag("li", copyable(line), tag("p", f"{_times(len(when))} {numbers.minute(when[0])}", class_="note"))
        for line, when in lines.items()
    ]
    again = f"dowse report {shlex.quote(report.folder)}"
    return tag("ul", *shown, tag("li", copyable(again), tag("p", "This page.", class_="note")), class_="commands")


def speeds(report: Report) -> Markup | None:
    """How fast each process was: queries a second, and how busy the target was."""
    rows = []
    for session in report.sessions:
        ended = session.ended or max((r.finished for e in report.entries for r in e.rows if r.session == session.id),
                                     default=session.started)  # fmt: skip
        seconds = ended - session.started
        if session.queries and seconds > 0:
            machine = session.versions.get("platform", "")
            busy = f"{session.queries / session.busy:,.0f}" if session.busy > 0 else numbers.NONE
            rows.append(
                tag("tr", tag("th", numbers.minute(session.started), scope="row"), tag("td", f"{session.queries:,}"),
                    tag("td", f"{session.queries / seconds:,.0f}"), tag("td", busy),
                    tag("td", numbers.percent(session.busy / seconds)), tag("td", machine, class_="text")),
            )  # fmt: skip
    if not rows:
        return None
    heads = ("Process, began", "Queries", "Queries per second", "… while the target works", "Target busy", "Machine")
    head = tag("thead", tag("tr", *(tag("th", word, scope="col", class_="text" if i in (0, 5) else None)
                                    for i, word in enumerate(heads))))  # fmt: skip
    return tag("div", tag("table", head, tag("tbody", *rows[-60:])), class_="scroll", tabindex="0", role="region",
               aria_label="Queries per second")  # fmt: skip


def method_name(title: str) -> Markup:
    """A method's title as the paper writes it."""
    return joined(*(tag("sub", text) if low else text for text, low in subscripts(title)))


def copyable(text: str) -> Markup:
    """A line of code with a button that copies it."""
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy: {text}")
    return tag("span", tag("code", text), button, class_="copyable")


def _sentence(table: Table, group: Group) -> Markup:
    where = joined("On ", tag("strong", group.name), f" ({_norm(table)}) ")
    done = [entry for entry in group.entries if entry.numbers.summary.n]
    if not done:
        return joined(where, "there was nothing to attack.")
    ranked = sorted(done, key=lambda e: (e.numbers.summary.median_queries, -e.numbers.summary.asr))
    first, last = ranked[0], ranked[-1]
    if not math.isfinite(first.numbers.summary.median_queries):
        first = max(done, key=lambda e: e.numbers.summary.asr)
        return joined(
            where, "no method fools more than half of the images; ", tag("strong", method_name(first.method)),
            f" comes closest with {numbers.percent(first.numbers.summary.asr)} of {first.numbers.summary.n}.",
        )  # fmt: skip
    said = joined(
        where, tag("strong", method_name(first.method)), " fools half of the images within ",
        tag("strong", f"{numbers.queries(first.numbers.summary.median_queries)} queries"),
        f" and {_share(first)} in the end",
    )  # fmt: skip
    if last is first:
        return joined(said, ".")
    slow = last.numbers.summary.median_queries
    if math.isinf(slow):
        return joined(said, "; ", tag("strong", method_name(last.method)), f" fools {_share(last)} within the budget.")
    return joined(said, "; ", tag("strong", method_name(last.method)), f" needs {numbers.queries(slow)}.")


def _share(entry: Entry) -> str:
    summary = entry.numbers.summary
    return f"all {summary.n}" if summary.successes == summary.n else f"{numbers.percent(summary.asr)} of {summary.n}"


def _loss_and_seed(entry: Entry) -> str:
    loss = {"ce": "cross-entropy", "margin": "margin"}.get(entry.run.content["loss"], entry.run.content["loss"])
    return f"{loss or 'the method’s own'}, seed {entry.run.content['seed']}"


def _further(entry: Entry) -> list[Markup]:
    summary = entry.numbers.summary
    rate = entry.numbers.rate
    words = (
        f"{summary.n:,}", f"{summary.successes:,}", f"{summary.already_wrong:,}", f"{entry.unfinished:,}",
        numbers.queries(summary.mean_queries_budget), f"{summary.queries:,}",
        numbers.NONE if math.isnan(rate) else f"{rate:,.0f}",
    )  # fmt: skip
    return [tag("td", word) for word in words]


def _cell(cell: cells.Cell, g: int, c: int) -> Markup:
    number = tag("b", cell.text) if cell.best else tag("span", cell.text)
    interval = tag("small", cell.interval) if cell.interval else None
    value = "" if math.isnan(cell.value) else repr(cell.value)
    return tag("td", number, interval, data_v=value, data_g=g, class_="first" if c == 0 else None)


def _sorter(name: str, meaning: str) -> Markup:
    return tag("button", name, type="button", class_="sorter", title=meaning)


def _images(groups: list[Group]) -> list[str]:
    counts: dict[str, int] = {}
    for group in groups:
        largest = max((len(entry.rows) for entry in group.entries), default=0)
        counts[group.source] = max(counts.get(group.source, 0), largest)
    return [f"{number:,} of {Path(source).name or source}" for source, number in counts.items()]


def _dates(report: Report) -> str:
    days = _unique(numbers.day(one.started) for one in report.sessions)
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else "unknown"


def _codes(words: list[str]) -> Markup:
    return joined(*(tag("span", tag("span", short_target(word)), copyable(word), class_="spec") for word in words))


def _lines(words: list[str]) -> Markup:
    return joined(*(tag("span", word, class_="line") for word in words))


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _norm(table: Table) -> str:
    return NORMS.get(table.norm, table.norm)


def _text(i: int) -> str | None:
    return "text" if i < 2 else None


def _times(n: int) -> str:
    return "Began" if n == 1 else f"Given {n} times, first"
