"""The first sentences of the page: what came out against each target, and what is not done yet."""

import math
from collections import Counter

from dowse.report import numbers
from dowse.report.markup import Markup, joined, tag
from dowse.report.model import Entry, Group, Report, Table
from dowse.report.names import NORMS, subscripts

MOST = 4  # sentences


def lead(report: Report) -> Markup:
    """What came out, in a sentence for each target; of many, those of different norms and targets first."""
    places = [(table, group) for table in report.tables for group in table.groups]
    chosen = _spread([(table.norm, group.target) for table, group in places])
    said = [tag("p", _sentence(*places[place])) for place in chosen]
    left = len(places) - len(chosen)
    more = tag("p", tag("a", f"and {left} more below", href="#results"), class_="note") if left else None
    return tag("div", *said, more, class_="lead")


def unfinished(report: Report) -> Markup | None:
    """A warning where images are not done yet; None where all are."""
    left = sum(entry.counted.unfinished for entry in report.entries)
    runs = sum(entry.counted.unfinished > 0 for entry in report.entries)
    if not left:
        return None
    said = (
        f"{left:,} images of {runs} of the {len(report.entries)} runs are not done yet. Easy images end first, so "
        "these numbers flatter the runs that are under way."
    )
    return tag("p", said, class_="warning", role="note")


def method_name(title: str) -> Markup:
    """A method's title as the paper writes it."""
    return joined(*(tag("sub", text) if low else text for text, low in subscripts(title)))


def _spread(kinds: list[tuple[str, str]]) -> list[int]:
    """Up to MOST places, each time one whose norm and target were named least, in their own order."""
    chosen: list[int] = []
    named: Counter[str] = Counter()
    for _ in range(min(MOST, len(kinds))):
        left = [place for place in range(len(kinds)) if place not in chosen]
        place = min(left, key=lambda one: sum(named[word] for word in kinds[one]))
        chosen.append(place)
        named.update(kinds[place])
    return sorted(chosen)


def _sentence(table: Table, group: Group) -> Markup:
    where = joined("On ", tag("strong", group.name), f" ({NORMS.get(table.norm, table.norm)}) ")
    if not any(entry.counted.attacked for entry in group.entries):
        return joined(where, "there was nothing to attack.")
    ranked = sorted(
        group.comparable, key=lambda e: (e.numbers.summary.median_queries, -e.numbers.summary.asr, e.method)
    )
    if not ranked:
        return joined(where, "no two methods attacked the same images, so none of them is best.")
    return joined(where, *_best_and_last(ranked), _others(group, ranked))


def _best_and_last(ranked: list[Entry]) -> list[str]:
    first, last = ranked[0], ranked[-1]
    if not math.isfinite(first.numbers.summary.median_queries):
        first = max(ranked, key=lambda e: e.numbers.summary.asr)
        share = f"{numbers.percent(first.numbers.summary.asr)} of {first.numbers.summary.n}"
        return ["no method fools more than half of the images; ", tag("strong", method_name(first.method)),
                f" comes closest with {share}."]  # fmt: skip
    said = [
        tag("strong", method_name(first.method)), " fools half of the images within ",
        tag("strong", f"{numbers.queries(first.numbers.summary.median_queries)} queries"),
        f" and {_share(first)} in the end",
    ]  # fmt: skip
    if last is first:
        return [*said, "."]
    slow = last.numbers.summary.median_queries
    ends = f" fools {_share(last)} within the budget." if math.isinf(slow) else f" needs {numbers.queries(slow)}."
    return [*said, "; ", tag("strong", method_name(last.method)), ends]


def _others(group: Group, ranked: list[Entry]) -> str:
    left = len(group.entries) - len(ranked)
    if not left:
        return ""
    return f" Not ranked: {left} {'method' if left == 1 else 'methods'} on other or fewer images."


def _share(entry: Entry) -> str:
    summary = entry.numbers.summary
    return f"all {summary.n}" if summary.successes == summary.n else f"{numbers.percent(summary.asr)} of {summary.n}"
