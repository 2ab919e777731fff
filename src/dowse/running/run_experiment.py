"""Experiments become rows: the runner claims images in the store, has an engine attack them, and commits what happens.

Only the runner's process writes the store. Where the attacks take place is the engine's affair (`engines`).
"""

from collections.abc import Sequence
from pathlib import Path

from dowse.experiment.file import Experiment
from dowse.experiment.grid import plans_of
from dowse.experiment.spec import PlannedRun
from dowse.images.sources import open_images
from dowse.running.engines import Engine
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Reporter
from dowse.running.run import Finished, Images, RunUnderWay, TargetFailedError
from dowse.running.worker import Order
from dowse.store import StoreWriter
from dowse.targets import input_size

__all__ = ["Finished", "Images", "TargetFailedError", "run_experiment", "run_one"]


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
    """Run every run of an experiment, or go on with it, and leave the rows in the folder `out`.

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
        What became of each run, in the order of the grid.
    """
    source = open_images(experiment.images.path, experiment.images.labels)
    plans = plans_of(experiment, source)
    report = report or Reporter()
    with StoreWriter(out, command, keep_answers=keep_answers) as store:
        finished = []
        for plan in plans:
            order = Order(
                spec=plan.spec,
                log_answers=log_answers,
                save=experiment.save,
                device=device,
            )
            size = experiment.images.size or input_size(plan.spec.target)
            images = Images(source, size, experiment.images.path)
            finished.append(run_one(plan, order, images, store, engine, report, interrupt or Interrupt()))
        return finished


def run_one(
    plan: PlannedRun,
    order: Order,
    images: Images,
    store: StoreWriter,
    engine: Engine,
    report: Reporter,
    interrupt: Interrupt,
) -> Finished:
    """Run one until nothing is left for this process to do."""
    spec = RunUnderWay(plan, order, images, store, report, interrupt)
    spec.begin()
    engine.run(order, spec.jobs(), spec.deliver)
    return spec.finish()
