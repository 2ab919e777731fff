"""From a store to a report: its runs, which of them stand in one table, and in it in one column."""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dowse.errors import InputError, count
from dowse.experiment.spec import PlannedRun
from dowse.images.class_names import class_names
from dowse.report.data.model import Group, Report, Table, TableEntry, measure, queries_a_second
from dowse.report.data.names import column_names, own_titles, report_title
from dowse.store import RunInfo, Store


def runs_of(store: Store, file: str | os.PathLike[str] | None = None) -> list[RunInfo]:
    """The runs of a store; with an experiment's file its runs alone, in its order, as it names and sizes them."""
    if file is None:
        return store.runs()
    # Here, since to read an experiment is to know all methods and targets, and the report of a whole store need not.
    from dowse.experiment.file import load_experiment
    from dowse.experiment.grid import plans_of
    from dowse.images.sources import open_images

    experiment = load_experiment(file)
    plans = plans_of(experiment, open_images(experiment.images.path, experiment.images.labels))
    begun = planned_runs(store, plans)
    if not begun:
        raise InputError(f"the store in {store.folder} has nothing of {file}: `dowse run {file}` runs it")
    return begun


def planned_runs(store: Store, plans: Iterable[PlannedRun]) -> list[RunInfo]:
    """The runs of a store that plans are about, in their order, as they name and size them."""
    runs = {run.id: run for run in store.runs()}
    begun = [(runs[plan.spec.id], plan) for plan in plans if plan.spec.id in runs]
    return [
        replace(run, title=plan.title, count=plan.count or run.count, budget=min(plan.budget, run.budget))
        for run, plan in begun
    ]


WIDEST = 3  # targets that fit side by side on a page


def gather(
    store: Store,
    *,
    experiment: str | os.PathLike[str] | None = None,
    plans: Sequence[PlannedRun] | None = None,
    budget: int | None = None,
    title: str | None = None,
    classes: Sequence[str] | None = None,
) -> Report:
    """The report of a store.

    Args:
        store: The store, open.
        experiment: The file of an experiment whose runs alone are told of, in its order; None tells of all.
        plans: The runs that alone are told of, where they are known without a file.
        budget: Read every run with this smaller budget; None takes each run's own.
        title: What the report is called; None makes one of the targets.
        classes: What the classes are called; None looks for names in the image set and the models.
    """
    if budget is not None:
        count(budget=budget)
    sessions = store.sessions()
    began = {session.id: session.started for session in sessions}
    found: dict[tuple[Any, ...], dict[tuple[str, str], list[TableEntry]]] = defaultdict(lambda: defaultdict(list))
    for run in runs_of(store, experiment) if plans is None else planned_runs(store, plans):
        allowed = run.budget if budget is None else min(budget, run.budget)
        counted = store.counted(run.id, allowed, run.count)
        if not counted.stored:
            continue
        numbers = measure(counted.rows, allowed, queries_a_second(counted.stored, began))
        said = run.content
        column = found[said["norm"], said["eps"], allowed, said["targeted"]][said["target"], said["image_set"]]
        column.append(TableEntry(run, run.title, counted, numbers))
    if not found:
        raise InputError(
            f"the store in {store.folder} holds no image that ended, so there is nothing to report: `dowse status "
            f"{store.folder}` says how far its runs are, and the command that began them goes on"
        )
    tables = [
        Table(norm, eps, allowed, targeted, groups)
        for (norm, eps, allowed, targeted), columns in found.items()
        for groups in side_by_side(_groups(store, list(columns.values()), classes))
    ]
    title = title or report_title([group for table in tables for group in table.groups])
    return Report(title, tables, sessions)


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


def _groups(store: Store, columns: Sequence[list[TableEntry]], classes: Sequence[str] | None) -> list[Group]:
    groups = []
    runs = [next((entry.run for entry in entries if entry.run.target_name), entries[0].run) for entries in columns]
    titles = own_titles([entry.run for entry in entries] for entries in columns)
    for name, entries in zip(column_names(runs), columns, strict=True):
        run = entries[0].run
        known = class_names(run.content, run.source) if classes is None else classes
        titled = [replace(entry, method=titles[entry.run.id]) for entry in entries]
        eps = store.radius(run.content, (row for entry in entries for row in entry.counted.rows[:1]))
        groups.append(Group(run.content["target"], name, run.source, tuple(known), eps, titled))
    return groups


def _alike(one: Group, other: Group) -> bool:
    methods = [{entry.method for entry in group.entries} for group in (one, other)]
    return 2 * len(methods[0] & methods[1]) >= len(methods[0] | methods[1])
