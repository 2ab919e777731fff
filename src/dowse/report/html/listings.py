"""Tables of the page beside the paper's: counts, options of every run, how fast each process was."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from dowse.core.summary import Summary
from dowse.experiment.spec import RunSpec
from dowse.report.data.model import Report, Table
from dowse.report.data.names import short_target
from dowse.store import RunInfo, SessionInfo
from dowse.wording import NONE, minute, percent, queries

ELSEWHERE = ("target", "surrogate", "image_set", "method", "options", "weights", "norm", "eps", "seed", "loss",
             "targeted")  # fields that the table of options says otherwise, or another part of the page  # fmt: skip
DEFAULTS = {
    one.name: one.default for one in fields(RunSpec) if one.name not in ELSEWHERE and one.default is not MISSING
}


@dataclass(frozen=True)
class Line:
    """A line of a listing: what it is about, a note behind that, and its words."""

    about: str
    words: Sequence[str]
    note: str = ""


@dataclass(frozen=True)
class Listing:
    """A table of words.

    Attributes:
        label: What it is called to those who hear the page.
        heads: The headings, the first over what a line is about.
        lines: Its lines.
        text: The places of the columns that hold text, which stands on the left; numbers stand on the right.
        style: Its class.
    """

    label: str
    heads: Sequence[str]
    lines: Sequence[Line]
    text: Sequence[int]
    style: str = ""


def counts(table: Table, caption: str) -> Listing:
    """What the paper's table leaves out: how many images, those left out, the mean with failures at the budget."""
    heads = ["Method", "Target", "Images", "Fooled", "Already wrong", "Answered NaN", "Unfinished",
             "Mean, failures at the budget", "Queries in all", "Queries per second of one process"]  # fmt: skip
    watched = any(entry.numbers.summary.detected for group in table.groups for entry in group.entries)
    heads += DETECTION if watched else []
    lines = []
    for group in table.groups:
        for entry in group.entries:
            summary, rate = entry.numbers.summary, entry.numbers.rate
            numbers = (summary.n, summary.successes, summary.already_wrong, summary.failed, entry.counted.unfinished)
            words = (group.name, *(f"{number:,}" for number in numbers), queries(summary.mean_queries_budget),
                     f"{summary.queries:,}", NONE if math.isnan(rate) else f"{rate:,.0f}")  # fmt: skip
            lines.append(Line(entry.method, (*words, *(_detection(summary) if watched else ()))))
    return Listing(f"Counts and means, {caption}", heads, lines, (0, 1), "counts")


DETECTION = ("Detected", "Queries until detected", "Refused share of queries")


def _detection(summary: Summary) -> tuple[str, str, str]:
    """Of how many images a query was refused, which one was the first on average, and how many of all queries were."""
    return f"{summary.detected:,}", queries(summary.queries_until_detected), percent(summary.coverage)


def options(table: Table, caption: str) -> Listing:
    """What every run of a table was made with; runs of one method and the same options share a line."""
    targets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for group in table.groups:
        for entry in group.entries:
            targets[entry.method, *_options(entry.run)].append(group.name)
    heads = ("Method", "Target", "Options of the method, but for those left to it", "Surrogate",
             "Loss, seed, and what is not the default")  # fmt: skip
    lines = [
        Line(method, ("all" if len(names) == len(table.groups) > 1 else ", ".join(names), *words))
        for (method, *words), names in targets.items()
    ]
    return Listing(f"Options of every run, {caption}", heads, lines, range(len(heads)), "options")


def speeds(report: Report) -> Listing:
    """How fast each process was that asked anything: queries a second, and how busy the target was."""
    last: dict[int, float] = defaultdict(float)
    for entry in report.entries:
        for row in entry.counted.rows:
            last[row.session] = max(last[row.session], row.finished)
    heads = ("Process, began", "Queries", "Queries per second", "… while the target works", "Target busy", "Machine")
    timed = [(one, (one.ended or max(one.beat, last[one.id])) - one.started) for one in report.sessions]
    lines = [_speed(one, seconds) for one, seconds in timed if one.queries and seconds > 0]
    return Listing("Queries per second of each process", heads, lines, (0, 5))


def loss_and_seed(run: RunInfo) -> str:
    """The loss and the seed of a run in words."""
    loss = {"ce": "cross-entropy", "margin": "margin"}.get(run.content["loss"], run.content["loss"])
    return f"{loss or 'the method’s own'}, seed {run.content['seed']}"


def _speed(session: SessionInfo, seconds: float) -> Line:
    working = f"{session.queries / session.busy:,.0f}" if session.busy > 0 else NONE
    words = (f"{session.queries:,}", f"{session.queries / seconds:,.0f}", working,
             percent(min(1.0, session.busy / seconds)), session.versions.get("platform", ""))  # fmt: skip
    return Line(
        minute(session.started), words, "" if session.ended else "still runs" if session.alive else "was killed"
    )


def _options(run: RunInfo) -> tuple[str, str, str]:
    unusual = _listed((name, run.content[name]) for name, usual in DEFAULTS.items()
                      if run.content.get(name, usual) != usual)  # fmt: skip
    surrogates = ", ".join(short_target(spec) for spec in run.content["surrogate"])
    own = _listed(run.content["options"].items())
    return own or "none", surrogates or "none", "; ".join(filter(None, (loss_and_seed(run), unusual)))


def _listed(values: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name}\u00a0=\u00a0{_word(value)}" for name, value in values if value is not None)


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
