"""Experiments become rows: the runner claims images in the store, has an engine attack them, and commits what happens.

Only the runner's process writes the store. Where the attacks take place is the engine's affair (`dowse.engines`).
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dowse.cell import Plan
from dowse.cellrun import CellRun, Finished, Images, TargetFailedError
from dowse.engines import Engine
from dowse.errors import InputError
from dowse.experiment import Experiment, load_experiment
from dowse.imagesets import ImageSource, input_size, open_images
from dowse.interrupt import Interrupt
from dowse.progress import Reporter
from dowse.store import RunInfo, Store, StoreWriter
from dowse.targets.digest import weights_digest
from dowse.worker import Order

__all__ = ["Finished", "Images", "TargetFailedError", "plans_of", "run_cell", "run_experiment", "runs_of"]


def plans_of(experiment: Experiment, source: ImageSource) -> list[Plan]:
    """The grid of an experiment on an image set, each cell with its id."""

    def image_set(target: str) -> str:
        size = experiment.images.size or input_size(target)
        return source.fingerprint if size is None else f"{source.fingerprint}@{size}"

    return experiment.plans(image_set, weights_digest)


def runs_of(store: Store, file: str | os.PathLike[str] | None = None) -> list[RunInfo]:
    """The runs of a store; with an experiment's file its cells alone, in its order, as it names and sizes them."""
    if file is None:
        return store.runs()
    experiment, runs = load_experiment(file), {run.id: run for run in store.runs()}
    plans = plans_of(experiment, open_images(experiment.images.path, experiment.images.labels))
    begun = [(runs[plan.cell.id], plan) for plan in plans if plan.cell.id in runs]
    if not begun:
        raise InputError(f"the store in {store.folder} has nothing of {file}: `dowse run {file}` runs it")
    return [
        replace(run, title=plan.title, count=plan.count or run.count, budget=min(plan.budget, run.budget))
        for run, plan in begun
    ]


def run_experiment(
    experiment: Experiment,
    out: Path,
    engine: Engine,
    *,
    report: Reporter | None = None,
    command: Sequence[str] = (),
    log_answers: bool = True,
    keep_answers: bool = False,
    device: str = "cpu",
    interrupt: Interrupt | None = None,
) -> list[Finished]:
    """Run every cell of an experiment, or go on with it, and leave the rows in the folder `out`.

    Args:
        experiment: What to run.
        out: The store's folder.
        engine: Where the attacks take place.
        report: Who is told.
        command: The command line, for the manifest.
        log_answers: Whether answers are logged, so that an image can go on where it was.
        keep_answers: Whether the log of an image stays though the image can never go on.
        device: Where torch networks live.
        interrupt: Asked after each round whether to stop; raises Stopped then.

    Returns:
        What became of each cell, in the order of the grid.
    """
    source = open_images(experiment.images.path, experiment.images.labels)
    plans = plans_of(experiment, source)
    report = report or Reporter()
    with StoreWriter(out, command, keep_answers=keep_answers) as store:
        finished = []
        for plan in plans:
            order = Order(
                cell=plan.cell,
                budget=plan.budget,
                concurrency=experiment.concurrency,
                batch_size=experiment.batch_size,
                log_answers=log_answers,
                save=experiment.save,
                device=device,
            )
            size = experiment.images.size or input_size(plan.cell.target)
            images = Images(source, size, experiment.images.path)
            finished.append(run_cell(plan, order, images, store, engine, report, interrupt or Interrupt()))
        return finished


def run_cell(
    plan: Plan,
    order: Order,
    images: Images,
    store: StoreWriter,
    engine: Engine,
    report: Reporter,
    interrupt: Interrupt,
) -> Finished:
    """Run one cell until nothing is left for this process to do."""
    cell = CellRun(plan, order, images, store, report, interrupt)
    cell.begin()
    engine.run(order, cell.jobs(), cell.deliver)
    return cell.finish()
