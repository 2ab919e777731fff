"""The facts and the tables of the page, which need no script."""

import math
from collections.abc import Iterable
from pathlib import Path

from dowse.report import cells, numbers
from dowse.report.lead import method_name
from dowse.report.markup import Markup, joined, scrolling, tag
from dowse.report.model import Entry, Group, Report, Table
from dowse.report.names import short_target
from dowse.report.setup import copyable, loss_and_seed


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
        ("Loss and seed", _lines(_unique(loss_and_seed(entry.run) for entry in entries))),
        ("Versions", _lines([", ".join(versions)])),
        ("Date", _lines([_dates(report)])),
    ]
    return tag("dl", *(tag("div", tag("dt", word), tag("dd", value)) for word, value in said), class_="facts")


def result_table(report: Report, number: int, caption: str) -> Markup:
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
    colours = {method: m for m, method in enumerate(report.methods)}
    for method, filled in cells.fill(table).items():
        marked = tag("span", "", class_="swatch", data_m=colours[method], aria_hidden="true")
        row = [tag("th", marked, method_name(method), scope="row", data_v=method)]
        row += [_cell(cell, g, c) for g, group in enumerate(filled) for c, cell in enumerate(group)]
        body.append(tag("tr", *row))
    head = tag(
        "thead",
        tag("tr", tag("th", _sorter("Method", "Sort by name."), scope="col", rowspan=2, aria_sort="none"), *heads),
        tag("tr", *names),
    )
    made = tag("table", head, tag("tbody", *body), class_="results", data_t=number)
    return scrolling(made, f"Results, {caption}")


def further_table(table: Table, caption: str) -> Markup:
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
             "Queries in all", "Queries per second of one process")  # fmt: skip
    head = tag("thead", tag("tr", *(tag("th", word, scope="col", class_=_text(i)) for i, word in enumerate(heads))))
    return tag(
        "details",
        tag("summary", "Counts, means with failures at the budget, queries per second"),
        scrolling(tag("table", head, tag("tbody", *rows), class_="counts"), f"Counts and means, {caption}"),
    )


def _further(entry: Entry) -> list[Markup]:
    summary = entry.numbers.summary
    rate = entry.numbers.rate
    words = (
        f"{summary.n:,}", f"{summary.successes:,}", f"{summary.already_wrong:,}", f"{entry.counted.unfinished:,}",
        numbers.queries(summary.mean_queries_budget), f"{summary.queries:,}",
        numbers.NONE if math.isnan(rate) else f"{rate:,.0f}",
    )  # fmt: skip
    return [tag("td", word) for word in words]


def _cell(cell: cells.Cell, g: int, c: int) -> Markup:
    number = tag("b", cell.text) if cell.best else tag("span", cell.text)
    small = [tag("small", words) for words in (cell.interval, cell.images) if words]
    value = "" if math.isnan(cell.value) else repr(cell.value)
    return tag("td", number, *small, data_v=value, data_g=g, class_="first" if c == 0 else None)


def _sorter(name: str, meaning: str) -> Markup:
    return tag("button", name, type="button", class_="sorter", title=meaning)


def _images(groups: list[Group]) -> list[str]:
    counts: dict[str, list[int]] = {}
    for group in groups:
        counts.setdefault(group.source, []).extend(len(entry.counted.rows) for entry in group.entries)
    return [f"{_range(numbers)} of {Path(source).name or source}" for source, numbers in counts.items()]


def _range(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def _dates(report: Report) -> str:
    days = _unique(numbers.day(one.started) for one in report.sessions)
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else "unknown"


def _codes(words: list[str]) -> Markup:
    return joined(*(tag("span", tag("span", short_target(word)), copyable(word), class_="spec") for word in words))


def _lines(words: list[str]) -> Markup:
    return joined(*(tag("span", word, class_="line") for word in words))


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _text(i: int) -> str | None:
    return "text" if i < 2 else None
