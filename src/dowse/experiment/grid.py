"""The grid of an experiment on an image set: every run that it asks for, each with its id."""

from dowse.experiment.file import Experiment
from dowse.experiment.spec import PlannedRun
from dowse.images.image_set import ImageSource
from dowse.targets import input_size
from dowse.targets.digest import weights_digest


def plans_of(experiment: Experiment, source: ImageSource) -> list[PlannedRun]:
    """The grid of an experiment on an image set, each run with its id."""

    def image_set(target: str) -> str:
        size = experiment.images.size or input_size(target)
        return source.fingerprint if size is None else f"{source.fingerprint}@{size}"

    return experiment.plans(image_set, weights_digest)
