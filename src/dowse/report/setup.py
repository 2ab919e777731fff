"""How the runs of a page came about: the options of each, how fast processes were, the commands."""

import json
import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from dowse.experiment.spec import RunSpec
from dowse.report import numbers
from dowse.report.lead import method_name
from dowse.report.markup import Markup, joined, scrolling, tag
from dowse.report.model import Report, Table
from dowse.report.names import short_target
from dowse.store import RunInfo, SessionInfo

SPEEDS = 60  # processes listed
ELSEWHERE = ("target", "surrogate", "image_set", "method", "options", "weights", "norm", "eps", "seed", "loss",
             "targeted")  # fields that the table of options says otherwise, or another part of the page  # fmt: skip
DEFAULTS = {
    one.name: one.default for one in fields(RunSpec) if one.name not in ELSEWHERE and one.default is not MISSING
}


def options_table(table: Table, caption: str) -> Markup:
    """What every run of a table was made with; runs of one method and the same options share a line."""
    targets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for group in table.groups:
        for entry in group.entries:
            targets[entry.method, *_options(entry.run)].append(group.name)
    rows = []
    for (method, *words), names in targets.items():
        against = "all" if len(names) == len(table.groups) > 1 else ", ".join(names)
        cells = [tag("td", word, class_="text") for word in (against, *words)]
        rows.append(tag("tr", tag("th", method_name(method), scope="row"), *cells))
    heads = (
        "Method",
        "Target",
        "Options of the method, but for those left to it",
        "Surrogate",
        "Loss, seed, and what is not the default",
    )
    head = tag("thead", tag("tr", *(tag("th", word, scope="col", class_="text") for word in heads)))
    return tag(
        "details",
        tag("summary", "Options of every run"),
        scrolling(tag("table", head, tag("tbody", *rows), class_="options"), f"Options of every run, {caption}"),
    )


def speeds(report: Report) -> Markup | None:
    """How fast each process was: queries a second, and how busy the target was."""
    last: dict[int, float] = defaultdict(float)
    for entry in report.entries:
        for row in entry.counted.rows:
            last[row.session] = max(last[row.session], row.finished)
    rows = [line for one in report.sessions if (line := _speed(one, last[one.id])) is not None]
    if not rows:
        return None
    heads = ("Process, began", "Queries", "Queries per second", "… while the target works", "Target busy", "Machine")
    head = tag("thead", tag("tr", *(tag("th", word, scope="col", class_="text" if i in (0, 5) else None)
                                    for i, word in enumerate(heads))))  # fmt: skip
    left = f"The last {SPEEDS} of {len(rows)} processes; the store has all." if len(rows) > SPEEDS else None
    return joined(
        tag("p", "A line is one process; one that did not end in order is timed up to its last sign of life.",
            f" {left}" if left else None, class_="explain"),
        scrolling(tag("table", head, tag("tbody", *rows[-SPEEDS:])), "Queries per second of each process"),
    )  # fmt: skip


def commands(report: Report, again: str, aside: str = "") -> Markup:
    """The exact commands, each to be copied, with when they ran; `again` writes this page, but for `aside`."""
    lines: dict[str, list[float]] = {}
    for session in report.sessions:
        if session.command:
            lines.setdefault(shlex.join(session.command), []).append(session.started)
    shown = [
        tag("li", copyable(line), tag("p", f"{_times(len(when))} {numbers.minute(when[0])}", class_="note"))
        for line, when in lines.items()
    ]
    return tag("ul", *shown, tag("li", copyable(again), tag("p", f"This page{aside}.", class_="note")),
               class_="commands")  # fmt: skip


def copyable(text: str) -> Markup:
    """A line of code with a button that copies it."""
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy: {text}")
    return tag("span", tag("code", text), button, class_="copyable")


def loss_and_seed(run: RunInfo) -> str:
    """The loss and the seed of a run in words."""
    loss = {"ce": "cross-entropy", "margin": "margin"}.get(run.content["loss"], run.content["loss"])
    return f"{loss or 'the method’s own'}, seed {run.content['seed']}"


def _options(run: RunInfo) -> tuple[str, str, str]:
    own = _listed(run.content["options"].items())
    unusual = _listed((name, run.content[name]) for name, usual in DEFAULTS.items()
                      if run.content.get(name, usual) != usual)  # fmt: skip
    surrogates = ", ".join(short_target(spec) for spec in run.content["surrogate"])
    return own or "none", surrogates or "none", "; ".join(filter(None, (loss_and_seed(run), unusual)))


def _listed(values: Any) -> str:
    return ", ".join(f"{name}\u00a0=\u00a0{_word(value)}" for name, value in values if value is not None)


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _speed(session: SessionInfo, last: float) -> Markup | None:
    """A process as a line; None if it asked nothing."""
    seconds = (session.ended or max(session.beat, last)) - session.started
    if not session.queries or seconds <= 0:
        return None
    working = f"{session.queries / session.busy:,.0f}" if session.busy > 0 else numbers.NONE
    cells: Sequence[str] = (f"{session.queries:,}", f"{session.queries / seconds:,.0f}", working,
                            numbers.percent(min(1.0, session.busy / seconds)))  # fmt: skip
    state = None if session.ended else tag("span", " still runs" if session.alive else " was killed", class_="note")
    return tag(
        "tr",
        tag("th", numbers.minute(session.started), state, scope="row"),
        *(tag("td", cell) for cell in cells),
        tag("td", session.versions.get("platform", ""), class_="text"),
    )


def _times(n: int) -> str:
    return "Began" if n == 1 else f"Given {n} times, first"
