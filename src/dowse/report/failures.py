"""What did not work: why images were not fooled, and which could not be read."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from dowse.core.result import End
from dowse.report.lead import method_name
from dowse.report.markup import Markup, joined, tag
from dowse.report.model import Entry, Group, Report, Table
from dowse.report.names import NORMS

LISTED = 40  # images named one by one
SKIPPED = "The image could not be read and was left out."
Image = tuple[str, str | None]  # its name, and what went wrong


def failures(report: Report) -> Markup | None:
    """Why images were not fooled or were left out, by the reason, and in it by run; None if all went well."""
    reasons: dict[str, list[tuple[Markup, list[Image]]]] = defaultdict(list)
    for table in report.tables:
        for group in table.groups:
            for entry in group.entries:
                where = _where(table, group, entry)
                for sentence, images in _failed(entry):
                    reasons[sentence].append((where, images))
    parts = [_reason(sentence, runs) for sentence, runs in reasons.items()]
    return tag("div", *parts, class_="failures") if parts else None


def _failed(entry: Entry) -> Iterator[tuple[str, list[Image]]]:
    for end in End:
        images = [(row.name, row.cause) for row in (*entry.counted.rows, *entry.counted.failed) if row.end is end]
        if images and end is not End.ADVERSARIAL:
            yield end.sentence, images
    if entry.run.skipped:
        yield SKIPPED, list(entry.run.skipped.items())


def _where(table: Table, group: Group, entry: Entry) -> Markup:
    return joined(method_name(entry.method), f", {group.name}, {NORMS.get(table.norm, table.norm)}")


def _reason(sentence: str, runs: list[tuple[Markup, list[Image]]]) -> Markup:
    """A reason, which opens to its runs, each of which opens to its images."""
    total = sum(len(images) for _, images in runs)
    many = f"{len(runs)} runs" if len(runs) > 1 else "1 run"
    head = joined(tag("b", f"{total:,}"), f" × {sentence} ", tag("span", f"({many})", class_="note"))
    inside = tag("div", *(_run(where, images) for where, images in runs), class_="runs")
    return tag("details", tag("summary", head), inside)


def _run(where: Markup, images: list[Image]) -> Markup:
    names = tag("ul", *_names(images), class_="names")
    return tag("details", tag("summary", tag("b", f"{len(images):,}"), " × ", where), names, class_="run")


def _names(images: list[Image]) -> Iterable[Markup]:
    for name, why in images[:LISTED]:
        yield tag("li", tag("code", name), f" {why}" if why else None)
    if len(images) > LISTED:
        yield tag("li", f"and {len(images) - LISTED:,} more")
