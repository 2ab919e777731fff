"""What a page says in words: which columns lead, what was run and by which commands, and what did not work."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dowse.core.outcome import End
from dowse.report.data.model import Group, Report, Table, TableEntry
from dowse.report.data.names import ball, norm_sign, short_target
from dowse.report.html.listings import loss_and_seed
from dowse.wording import day, minute


def specs(report: Report) -> dict[str, dict[str, str]]:
    """What targets and surrogates are called, by their specs."""
    given = {entry.run.content["target"]: entry.run.target_name for entry in report.entries if entry.run.target_name}
    surrogates = _unique(spec for entry in report.entries for spec in entry.run.content["surrogate"])
    return {
        "Targets": {group.target: short_target(group.target) for _, group in report.columns} | given,
        "Surrogates": {spec: short_target(spec) for spec in surrogates},
    }


def facts(report: Report) -> dict[str, list[str]]:
    """What else was run, in lines."""
    versions = _unique(f"{name} {of}" for s in report.sessions for name, of in s.versions.items() if name != "platform")
    return {
        "Images": _images(report),
        "Ball": _unique(ball(table) for table in report.tables),
        "Budget": _unique(f"{table.budget:,} queries an image" for table in report.tables),
        "Loss and seed": _unique(loss_and_seed(entry.run) for entry in report.entries),
        "Versions": [", ".join(versions)],
        "Date": [_range(_unique(day(one.started) for one in report.sessions)) or "unknown"],
    }


def commands(report: Report, again: str, aside: str = "") -> list[tuple[str, str]]:
    """The exact commands, each with when it was given; `again` writes this page, but for `aside`."""
    given: dict[str, list[float]] = {}
    for session in report.sessions:
        if session.command:
            given.setdefault(shlex.join(session.command), []).append(session.started)
    said = [
        (line, f"{'Began' if len(when) == 1 else f'Given {len(when)} times, first'} {minute(when[0])}")
        for line, when in given.items()
    ]
    return [*said, (again, f"This page{aside}.")]


WHOSE = ", without labels: each attacked as what the target itself takes it for"


def _images(report: Report) -> list[str]:
    counts: dict[tuple[str, bool], set[int]] = {}
    for _, group in report.columns:
        for entry in group.entries:
            counts.setdefault((group.source, entry.run.own_labels), set()).add(len(entry.counted.rows))
    return [
        f"{_range(f'{n:,}' for n in sorted(of))} of {Path(source).name or source}" + (WHOSE if own else "")
        for (source, own), of in counts.items()
    ]


def _range(words: Iterable[str]) -> str:
    """The first to the last."""
    first, *others = [*words] or [""]
    return f"{first} to {others[-1]}" if others else first


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


MOST = 4  # sentences


def leading_columns(report: Report) -> list[tuple[Table, Group]]:
    """Up to MOST columns in their own order: of many, each time one whose norm and target were named least."""
    columns, chosen = report.columns, list[int]()
    named: Counter[str] = Counter()
    while len(chosen) < min(MOST, len(columns)):
        left = [place for place in range(len(columns)) if place not in chosen]
        words = {place: (columns[place][0].norm, columns[place][1].target) for place in left}
        place = min(left, key=lambda one: sum(named[word] for word in words[one]))
        chosen.append(place)
        named.update(words[place])
    return [columns[place] for place in sorted(chosen)]


SKIPPED = "The image could not be read and was left out."


@dataclass(frozen=True)
class FailedImages:
    """Images of one run that failed for one reason: whose they are, and each one's name and what went wrong."""

    method: str
    where: str
    images: list[tuple[str, str | None]]

    @property
    def number(self) -> int:
        """How many images."""
        return len(self.images)


def failures(report: Report) -> dict[str, list[FailedImages]]:
    """Why images were not fooled or were left out: runs and their images by the reason; empty if all went well."""
    reasons: dict[str, list[FailedImages]] = defaultdict(list)
    for table, group in report.columns:
        for entry in group.entries:
            for sentence, images in _failed(entry):
                reasons[sentence].append(FailedImages(entry.method, f"{group.name}, {norm_sign(table.norm)}", images))
    return dict(reasons)


def _failed(entry: TableEntry) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    for end in End:
        images = [(row.name, row.cause) for row in (*entry.counted.rows, *entry.counted.failed) if row.end is end]
        if images and end is not End.ADVERSARIAL:
            yield end.sentence, images
    if entry.run.skipped:
        yield SKIPPED, list(entry.run.skipped.items())
