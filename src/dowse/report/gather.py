"""From a store to a report: which runs stand together, what they are called, and what they amount to."""

import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dowse.core.result import End, summarize
from dowse.errors import InputError, count
from dowse.maths.geometry import make_ball
from dowse.report.curves import success_curve
from dowse.report.intervals import bootstrap_mean, median_interval, wilson
from dowse.report.model import Entry, Group, Numbers, Report, Table
from dowse.report.names import class_names, short_target
from dowse.report.runs import runs_of
from dowse.settings import Norm
from dowse.store import Row, RunInfo, Store

APART = ("target", "image_set", "norm", "eps", "targeted", "weights")  # what tells groups apart, not methods
WIDEST = 3  # targets that fit side by side on a page


def gather(
    store: Store,
    *,
    experiment: str | os.PathLike[str] | None = None,
    budget: int | None = None,
    title: str | None = None,
    classes: Sequence[str] | None = None,
) -> Report:
    """The report of a store.

    Args:
        store: The store, open.
        experiment: The file of an experiment whose runs alone are told of, in its order; None tells of all.
        budget: Read every run with this smaller budget; None takes each run's own.
        title: What the report is called; None makes one of the targets.
        classes: What the classes are called; None looks for names in the image set and the models.
    """
    if budget is not None:
        count(budget=budget)
    sessions = store.sessions()
    began = {session.id: session.started for session in sessions}
    found: dict[tuple[Any, ...], dict[tuple[str, str], list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for run in runs_of(store, experiment):
        allowed = run.budget if budget is None else min(budget, run.budget)
        counted = store.counted(run.id, allowed, run.count)
        if not counted.stored:
            continue
        numbers = measure(counted.rows, allowed, _rate(counted.stored, began))
        entry = Entry(run, run.title, counted, numbers)
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


def own_titles(runs: Iterable[RunInfo]) -> dict[str, str]:
    """Titles of runs that tell them apart, by their ids: what differs stands behind a title that repeats."""
    named: dict[str, list[RunInfo]] = defaultdict(list)
    for run in runs:
        named[run.title].append(run)
    titles = {}
    for title, same in named.items():
        spoken = [_words(run) for run in same]
        differ = [word for word in spoken[0] if len({words.get(word) for words in spoken}) > 1]
        for run, words in zip(same, spoken, strict=True):
            said = ", ".join(f"{word}={words.get(word)}" for word in differ)
            titles[run.id] = f"{title} ({said})" if said else title
    return titles


def _groups(
    store: Store,
    columns: dict[tuple[str, str], list[Entry]],
    norm: Norm,
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
        titles = own_titles(entry.run for entry in entries)
        radius = _radius(store, norm, eps, entries)
        groups.append(
            Group(
                target,
                name,
                source,
                tuple(known),
                radius,
                [replace(entry, method=titles[entry.run.id]) for entry in entries],
            )
        )
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


def _radius(store: Store, norm: Norm, eps: float | None, entries: Sequence[Entry]) -> float:
    """The ball's radius; the paper's for ℓ₂ depends on the images' dimension, which an original tells."""
    if eps is not None or norm != "l2":
        return make_ball(norm, eps, 1).eps
    for row in (row for entry in entries for row in entry.counted.rows[:1]):
        try:
            return make_ball(norm, None, store.original(row).numel()).eps
        except OSError:
            continue
    return math.nan


def _rate(rows: Sequence[Row], began: dict[int, float]) -> float:
    """Queries a second of one process: those of the images that ended, from a run's first to its last in each process.

    Of an image that another process began, the share counts that its time here is of all its time.
    """
    seconds = queries = 0.0
    for session in {row.session for row in rows}:
        mine = [row for row in rows if row.session == session]
        start = began.get(session, 0.0)
        seconds += max(row.finished for row in mine) - max(min(row.finished - row.seconds for row in mine), start)
        queries += sum(row.queries * min(1.0, (row.finished - start) / max(row.seconds, 1e-9)) for row in mine)
    return queries / seconds if seconds > 0 else math.nan


def _title(tables: Sequence[Table]) -> str:
    names = list(dict.fromkeys(group.name for table in tables for group in table.groups))
    if len(names) > 3:
        return f"How few queries fool {len(names)} classifiers"
    return "How few queries fool " + " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
