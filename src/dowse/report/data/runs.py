"""The runs of a store that a report or a figure is about."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dowse.errors import InputError
from dowse.maths.geometry import make_ball
from dowse.store import Row, RunInfo, Store


def radius(store: Store, content: Mapping[str, Any], rows: Iterable[Row]) -> float:
    """The ball's radius of a run; the paper's for ℓ₂ depends on the images' dimension, which an original tells."""
    norm, eps = content["norm"], content["eps"]
    if eps is not None or norm != "l2":
        return make_ball(norm, eps, 1).eps
    for row in rows:
        try:
            return make_ball(norm, None, store.original(row).numel()).eps
        except OSError:
            continue
    return math.nan


def runs_of(store: Store, file: str | os.PathLike[str] | None = None) -> list[RunInfo]:
    """The runs of a store; with an experiment's file its runs alone, in its order, as it names and sizes them."""
    if file is None:
        return store.runs()
    # Here, since to read an experiment is to know all methods and targets, and the report of a whole store need not.
    from dowse.experiment.file import load_experiment
    from dowse.experiment.grid import plans_of
    from dowse.images.sources import open_images

    experiment, runs = load_experiment(file), {run.id: run for run in store.runs()}
    plans = plans_of(experiment, open_images(experiment.images.path, experiment.images.labels))
    begun = [(runs[plan.spec.id], plan) for plan in plans if plan.spec.id in runs]
    if not begun:
        raise InputError(f"the store in {store.folder} has nothing of {file}: `dowse run {file}` runs it")
    return [
        replace(run, title=plan.title, count=plan.count or run.count, budget=min(plan.budget, run.budget))
        for run, plan in begun
    ]
