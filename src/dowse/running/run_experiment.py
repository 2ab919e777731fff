"""Experiments become rows: the runner claims tasks in the store, has an engine attack them, and commits what happens.

Only the runner's process writes the store. Where the attacks take place is the engine's affair (`engines`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from dowse.errors import InputError
from dowse.experiment.grid import plans_of
from dowse.experiment.spec import PlannedRun
from dowse.experiment.tables import Experiment, ImagesTable, Save
from dowse.images.class_names import names_of, with_names
from dowse.images.image_set import ImageSource, in_channels
from dowse.images.sources import open_images
from dowse.running.backend import Backends, backend_of
from dowse.running.engines import Engine
from dowse.running.instructions import Instructions
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Reporter
from dowse.running.run_under_way import Finished, RunUnderWay
from dowse.store import StoreWriter


class HowToRun(TypedDict, total=False):
    """How plans are run, whatever they are; what is left out is as said here.

    Attributes:
        report: Who is told.
        command: The command line, for the manifest.
        log_answers: Whether answers are logged, so that an image can go on where it was; they are.
        keep_answers: Whether the log of an image stays though the image can never go on; it does not.
        device: Where torch networks live; the CPU.
        interrupt: Asked after each round whether to stop; raises Stopped then.
    """

    report: Reporter | None
    command: Sequence[str]
    log_answers: bool
    keep_answers: bool
    device: str
    interrupt: Interrupt | None


def run_experiment(experiment: Experiment, out: Path, engine: Engine, **how: Unpack[HowToRun]) -> list[Finished]:
    """Run every run of an experiment, or go on with it, and leave the rows in the folder `out`.

    Args:
        experiment: What to run.
        out: The store's folder.
        engine: Where the attacks take place.
        how: See HowToRun.

    Returns:
        What became of each run, in the order of the grid.
    """
    images = open_images(experiment.images.path, experiment.images.labels)
    plans = plans_of(experiment, images, engine.input_shape)
    return run_plans(plans, images, experiment.images, out, engine, save=experiment.save, **how)


def run_plans(
    plans: Sequence[PlannedRun],
    images: ImageSource,
    table: ImagesTable,
    out: Path,
    engine: Engine,
    *,
    save: Save = "safetensors",
    **how: Unpack[HowToRun],
) -> list[Finished]:
    """Run plans on an image set that is open, as `run_experiment` does those of a file.

    Args:
        plans: What to run.
        images: The image set.
        table: Where it is, for the record, and the size and channels that were asked for.
        out: The store's folder.
        engine: Where the attacks take place.
        save: What becomes of adversarial images.
        how: See HowToRun.
    """
    report, interrupt = how.get("report") or Reporter(), how.get("interrupt") or Interrupt()
    log_answers, device = how.get("log_answers", True), how.get("device", "cpu")
    finished, labels = [], ""
    for plan in plans:
        _check_wanted_classes(plan, images)
    with StoreWriter(out, how.get("command", ()), keep_answers=how.get("keep_answers", False)) as store:
        backends = Backends(plans, len(images), store, engine, device, report.message)
        for plan in plans:
            size, channels = table.fitting(engine.input_shape(plan.spec.target))
            seen = in_channels(with_names(images, names_of(plan.spec.target)), channels)
            plan = backends.agreed(backends.settled(plan, seen, size), seen, table.path)
            told = Instructions(
                spec=plan.spec, log_answers=log_answers, save=save, device=device, backend=backend_of(plan),
                rows_per_pass=plan.rows_per_pass,
            )  # fmt: skip
            note = "" if seen.whose_labels == labels else seen.whose_labels  # once, not with every run
            labels = seen.whose_labels
            run = RunUnderWay(plan, told, seen, size, table.path, store, report, interrupt, note)
            engine.run(told, run)
            finished.append(run.finish())
    return finished


def _check_wanted_classes(plan: PlannedRun, images: ImageSource) -> None:
    """Raise InputError for a targeted run on an image of which it is not said what class it is to become."""
    if not plan.spec.targeted:
        return
    for entry in images.entries[: plan.count]:
        if entry.target_label is None:
            raise InputError(
                f"a targeted run needs a target_label for every image, and {entry.name} has none: give a folder's "
                "labels.csv a column target_label, an .npz or .safetensors file target_labels"
            )
        if entry.target_label == entry.label:
            raise InputError(f"{entry.name}: the wanted class {entry.target_label} is its label already: name another")
