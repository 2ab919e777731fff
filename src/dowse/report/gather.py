"""From a store to a report: which runs stand together, what they are called, and what they amount to."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dowse.errors import InputError, count
from dowse.report.curves import success_curve
from dowse.report.intervals import bootstrap_mean, median_interval, wilson
from dowse.report.model import Entry, Group, Numbers, Report, Table
from dowse.report.names import class_names, short_target
from dowse.result import End, summarize
from dowse.store import Row, RunInfo, Store

APART = ("target", "image_set", "norm", "eps", "targeted", "weights")  # what tells groups apart, not methods
WIDEST = 3  # targets that fit side by side on a page


def gather(
    store: Store, *, budget: int | None = None, title: str | None = None, classes: Sequence[str] | None = None
) -> Report:
    """The report of a store.

    Args:
        store: The store, open.
        budget: Read every run with this smaller budget; None takes each run's own.
        title: What the report is called; None makes one of the targets.
        classes: What the classes are called; None looks for names in the image set and the models.
    """
    if budget is not None:
        count(budget=budget)
    sessions = store.sessions()
    began = {session.id: session.started for session in sessions}
    found: dict[tuple[Any, ...], dict[tuple[str, str], list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for run in store.runs():
        allowed = run.budget if budget is None else min(budget, run.budget)
        asked = [row for row in store.rows(run.id) if row.position < run.count]
        rows = [row.within(allowed) for row in asked if row.end is not End.BUDGET or row.budget >= allowed]
        if not rows and not asked:
            continue
        unfinished = max(0, run.count - len(run.skipped) - len(rows))
        entry = Entry(run, run.title, rows, unfinished, measure(rows, allowed, _rate(asked, began)))
        said = run.content
        found[said["norm"], said["eps"], allowed, said["targeted"]][said["target"], said["image_set"]].append(entry)
    if not found:
        raise InputError(
            f"the store in {store.folder} holds no image that ended, so there is nothing to report: `dowse status "
            f"{store.folder}` says how far its runs are, and `dowse run` goes on with them"
        )
    tables = [
        Table(norm, eps, allowed, targeted, groups)
        for (norm, eps, allowed, targeted), columns in found.items()
        for groups in side_by_side(_groups(store, columns, norm, eps, classes))
    ]
    return Report(title or _title(tables), str(store.folder), tables, sessions)


def measure(rows: Sequence[Row], budget: int, rate: float = math.nan) -> Numbers:
    """What the rows of one run amount to; `rate` is how many queries a second it asked."""
    attacked = [row for row in rows if row.end is not End.ALREADY_WRONG]
    taken = [row.queries for row in attacked if row.success]
    return Numbers(
        summary=summarize(rows),
        asr_interval=wilson(len(taken), len(attacked)),
        mean_interval=bootstrap_mean(taken),
        median_interval=median_interval([row.queries if row.success else math.inf for row in attacked]),
        curve=success_curve(taken, len(attacked), budget),
        rate=rate,
    )


def side_by_side(groups: Sequence[Group]) -> list[list[Group]]:
    """Columns as they share tables: all in one if they are few, else up to WIDEST that have most methods in common."""
    if len(groups) <= WIDEST:
        return [list(groups)]
    tables: list[list[Group]] = []
    for group in groups:
        home = next((table for table in tables if len(table) < WIDEST and _alike(table[0], group)), None)
        if home is None:
            tables.append([group])
        else:
            home.append(group)
    return tables


def distinct(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of a group with names that tell them apart: what differs stands behind a title that repeats."""
    named: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        named[entry.run.title].append(entry)
    names = {}
    for title, same in named.items():
        spoken = [_words(entry.run) for entry in same]
        differ = [word for word in spoken[0] if len({words.get(word) for words in spoken}) > 1]
        for entry, words in zip(same, spoken, strict=True):
            said = ", ".join(f"{word}={words.get(word)}" for word in differ)
            names[entry.run.id] = f"{title} ({said})" if said else title
    return [Entry(e.run, names[e.run.id], e.rows, e.unfinished, e.numbers) for e in entries]


def _groups(
    store: Store,
    columns: dict[tuple[str, str], list[Entry]],
    norm: str,
    eps: float | None,
    classes: Sequence[str] | None,
) -> list[Group]:
    heads = _heads(target for target, _ in columns)
    sources = {key: entries[0].run.source for key, entries in columns.items()}
    groups = []
    for (target, image_set), entries in columns.items():
        name, source = heads[target], sources[target, image_set]
        if sum(other == target for other, _ in columns) > 1:
            name = f"{name}, {Path(source).name or image_set[:6]}"
        known = class_names(entries[0].run.content, source) if classes is None else classes
        radius = _radius(store, norm, eps, entries)
        groups.append(Group(target, name, source, tuple(known), radius, distinct(entries)))
    return groups


def _alike(one: Group, other: Group) -> bool:
    methods = [{entry.method for entry in group.entries} for group in (one, other)]
    return 2 * len(methods[0] & methods[1]) >= len(methods[0] | methods[1])


def _heads(targets: Iterable[str]) -> dict[str, str]:
    """Short names of targets; whole specs where the short ones are the same."""
    specs = list(dict.fromkeys(targets))
    short = [short_target(spec) for spec in specs]
    return {spec: name if short.count(name) == 1 else spec for spec, name in zip(specs, short, strict=True)}


def _words(run: RunInfo) -> dict[str, str]:
    """What makes a run, in words that can be compared."""
    content = {word: value for word, value in run.content.items() if word not in (*APART, "options")}
    return {word: json.dumps(value).strip('"') for word, value in {**content, **run.content["options"]}.items()}


def _radius(store: Store, norm: str, eps: float | None, entries: Sequence[Entry]) -> float:
    """The ball's radius; the paper's for ℓ₂ depends on the images' dimension, which an original tells."""
    if eps is not None:
        return eps
    if norm != "l2":
        return 0.05
    for row in (row for entry in entries for row in entry.rows[:1]):
        try:
            return math.sqrt(0.001 * store.original(row).numel())
        except OSError:
            continue
    return math.nan


def _rate(rows: Sequence[Row], began: dict[int, float]) -> float:
    """Queries a second: those of a run over the time from its first image to its last, process by process."""
    seconds = 0.0
    for session in {row.session for row in rows}:
        mine = [row for row in rows if row.session == session]
        first = max(min(row.finished - row.seconds for row in mine), began.get(session, 0.0))
        seconds += max(row.finished for row in mine) - first
    return sum(row.queries for row in rows) / seconds if seconds > 0 else math.nan


def _title(tables: Sequence[Table]) -> str:
    names = list(dict.fromkeys(group.name for table in tables for group in table.groups))
    if len(names) > 3:
        return f"How few queries fool {len(names)} classifiers"
    return "How few queries fool " + " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
