"""A run: one target, one method, one set of settings, made ready for images and checked before any query."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor, nn

from dowse.drive import Accept, Observer, Progress, Task, drive
from dowse.errors import InputError, choose
from dowse.geometry import Norm, make_ball
from dowse.inputs import Image, check_fits, check_pixels, check_target
from dowse.losses import LossName, Objective, Outputs
from dowse.methods import Resolved, resolve_method
from dowse.oracle import Oracle, Target
from dowse.priors import Prior, SurrogatePrior
from dowse.result import Outcome
from dowse.seeds import image_id

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the caller said, the same for every image; `dowse.attack` explains each."""

    method: str | object = "prgf"
    surrogate: nn.Module | Prior | None = None
    norm: Norm = "l2"
    eps: float | None = None
    step: float | None = None
    budget: int = 10_000
    seed: int = 0
    loss: LossName = "ce"
    outputs: Outputs = "logits"
    targeted: bool = False
    accept: str = "iterate"
    concurrency: int = 8
    batch_size: int | None = None
    on_progress: OnProgress | None = None
    observers: Sequence[Observer] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def split(cls, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Keywords of a run, and those that are left for the method."""
        known = {f.name for f in fields(cls)} - {"options"} | {"target_labels", "ids"}
        ours = {name: value for name, value in keywords.items() if name in known}
        return ours, {name: value for name, value in keywords.items() if name not in known}

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> "Settings":
        """Settings of keywords; those that are not a run's own are the method's options."""
        ours, options = cls.split(keywords)
        for name in ("target_labels", "ids"):
            if name in ours:
                raise InputError(f"{name}= goes with attack(); in a stream each dowse.Image carries its own")
        return cls(**ours, options=options)


class Run:
    """Settings made ready for images like `like`, (C, H, W).

    Args:
        target: From points (n, C, H, W) in [0, 1] to scores (n, K).
        settings: What the caller said.
        like: One image, for its shape, dtype and device.
    """

    def __init__(self, target: Target, settings: Settings, like: Tensor) -> None:
        choose("accept", settings.accept, list(Accept))
        if settings.budget < 1:
            raise InputError(f"budget must be at least 1 query, got {settings.budget!r}")
        if settings.step is not None and not 0 < settings.step < math.inf:
            raise InputError(f"step must be a positive length, got {settings.step!r}")
        self.settings, self.shape = settings, like.shape
        self.method: Resolved = resolve_method(
            settings.method, norm=settings.norm, step=settings.step, options=settings.options
        )
        self.ball = make_ball(settings.norm, settings.eps, like.numel())
        check_target(target, like, whitebox=self.method.whitebox)
        objective = Objective(settings.loss, settings.outputs, settings.targeted)
        self.oracle = Oracle(target, objective, settings.batch_size)
        self.prior = _as_prior(settings.surrogate, objective, settings.batch_size)
        if self.prior is None and self.method.needs_surrogate:
            raise InputError(f"method {self.method.name!r} needs a surrogate: give surrogate=, a white-box module")
        if settings.surrogate is not None:
            check_fits("surrogate", settings.surrogate, like)
        self.oracle.learn_classes(like)

    def task(self, index: int, image: Image) -> Task:
        """The task of one image, checked."""
        check_pixels(image.x, rank=3)
        if image.x.shape != self.shape:
            raise InputError(
                f"all images of a run have one shape, got {tuple(image.x.shape)} after {tuple(self.shape)}"
            )
        for label in (image.label, image.target_label):
            if label is not None:
                self.oracle.check_label(label)
        if (image.target_label is not None) != self.settings.targeted:
            raise InputError("a targeted run (targeted=True) needs a target_label for every image, others take none")
        if image.target_label is not None and image.target_label == image.label:
            raise InputError(f"image {index}: the wanted class {image.label} is its label already")
        getattr(self.method.attack, "check", lambda x: None)(image.x)
        return Task(
            index=index,
            id=image.id or image_id(image.x, image.label),
            x=image.x.detach(),
            label=image.label,
            wanted=image.target_label,
            attack=self.method.attack,
            ball=self.ball,
            budget=self.settings.budget,
            seed=self.settings.seed,
            method=self.method.name,
            accept=Accept(self.settings.accept),
        )

    def outcomes(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Drive the tasks."""
        observers = list(self.settings.observers)
        if self.settings.on_progress is not None:
            observers.append(_Calling(self.settings.on_progress))
        return drive(tasks, self.oracle, self.prior, concurrency=self.settings.concurrency, observers=observers)


class _Calling(Observer):
    """Hands every Progress to a function."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress

    def progressed(self, progress: Progress) -> None:
        self.on_progress(progress)


def _as_prior(surrogate: nn.Module | Prior | None, objective: Objective, batch_size: int | None) -> Prior | None:
    if surrogate is None or not isinstance(surrogate, nn.Module):
        return surrogate
    return SurrogatePrior(surrogate, objective, batch_size)
