"""What did not work: why images were not fooled, and which could not be read."""

from collections import Counter
from collections.abc import Iterable

from dowse.report.markup import Markup, joined, tag
from dowse.report.model import Entry, Group, Report, Table
from dowse.report.names import NORMS
from dowse.result import End

LISTED = 40  # images named one by one
SKIPPED = "The image could not be read and was left out."


def failures(report: Report) -> Markup | None:
    """Why images were not fooled, sentence by sentence, and which were left out; None if all went well."""
    parts = [
        part
        for table in report.tables
        for group in table.groups
        for entry in group.entries
        for part in _failures(table, group, entry)
    ]
    return tag("div", *parts, class_="failures") if parts else None


def _failures(table: Table, group: Group, entry: Entry) -> list[Markup]:
    where = f"{entry.method}, {group.name}, {NORMS.get(table.norm, table.norm)}"
    kinds = Counter(row.end for row in entry.rows if row.end is not End.ADVERSARIAL)
    parts = [
        _listed(number, where, end.sentence, ((row.name, row.cause) for row in entry.rows if row.end is end))
        for end, number in kinds.items()
    ]
    if entry.run.skipped:
        parts.append(_listed(len(entry.run.skipped), where, SKIPPED, entry.run.skipped.items()))
    return parts


def _listed(number: int, where: str, sentence: str, images: Iterable[tuple[str, str | None]]) -> Markup:
    """A line that opens to the images it counts, each with its cause."""
    head = joined(tag("b", f"{number:,}"), f" × {where}: ", tag("span", sentence, class_="note"))
    names = [tag("li", tag("code", name), f" {why}" if why else None) for name, why in list(images)[:LISTED]]
    more = tag("li", f"and {number - LISTED:,} more") if number > LISTED else None
    return tag("details", tag("summary", head), tag("ul", *names, more, class_="names"))
