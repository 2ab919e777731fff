"""What a page says about how its runs came about: what was run, in a few words each, and the exact commands."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from dowse.report.data.captions import ball
from dowse.report.data.model import Report
from dowse.report.html.listings import loss_and_seed
from dowse.wording import day, minute


def specs(report: Report) -> dict[str, list[str]]:
    """Targets and surrogates by their specs."""
    surrogates = _unique(spec for entry in report.entries for spec in entry.run.content["surrogate"])
    return {"Targets": _unique(group.target for _, group in report.columns), "Surrogates": surrogates}


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


def _images(report: Report) -> list[str]:
    counts: dict[str, set[int]] = {}
    for _, group in report.columns:
        counts.setdefault(group.source, set()).update(len(entry.counted.rows) for entry in group.entries)
    return [f"{_range(f'{n:,}' for n in sorted(of))} of {Path(source).name or source}" for source, of in counts.items()]


def _range(words: Iterable[str]) -> str:
    """The first to the last."""
    first, *others = [*words] or [""]
    return f"{first} to {others[-1]}" if others else first


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
