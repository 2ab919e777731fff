"""A run: one target, one method, one set of settings, made ready for images and checked before any query."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from dowse.attacks.quantized import Quantized
from dowse.attacks.registry import find_method, resolve_method
from dowse.core.conversation import Accept, Task
from dowse.core.driver import drive
from dowse.core.inputs import Image, check_pixels, check_target
from dowse.core.method import loss_of
from dowse.core.observers import Journal, Observer, Progress
from dowse.core.oracle import Oracle
from dowse.core.result import Outcome
from dowse.core.seeds import image_id
from dowse.core.target import TargetLike
from dowse.errors import InputError, choose, count, positive
from dowse.maths.geometry import Ball, Norm, make_ball
from dowse.maths.grid import GridBall, grid_options, snapped
from dowse.maths.losses import LossName, Objective, Outputs
from dowse.surrogates.prior import SurrogateLike, as_prior
from dowse.targets import Mask, open_target

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the caller said, the same for every image; `dowse.attack` explains each."""

    method: str | object = "prgf"
    surrogate: SurrogateLike | Sequence[SurrogateLike] | None = None
    combine: str = "mean"
    norm: Norm = "l2"
    eps: float | None = None
    step: float | None = None
    budget: int = 10_000
    seed: int = 0
    loss: LossName | None = None
    outputs: Outputs = "logits"
    reveals: str | None = None
    decimals: int | None = None
    targeted: bool = False
    accept: str = "iterate"
    quantize: bool = False
    repeats: int = 1
    verify: int = 0
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
        target: From points (n, C, H, W) in [0, 1] to scores (n, K), or the spec string of such a target.
        settings: What the caller said.
        like: One image, for its shape, dtype and device.
    """

    def __init__(self, target: TargetLike | str, settings: Settings, like: Tensor) -> None:
        choose("accept", settings.accept, list(Accept))
        count(budget=settings.budget, concurrency=settings.concurrency, repeats=settings.repeats)
        if settings.verify != 0:
            count(verify=settings.verify)
        if settings.repeats > settings.budget:
            raise InputError(f"a row costs repeats={settings.repeats} queries, more than budget={settings.budget} has")
        if settings.batch_size is not None:
            count(batch_size=settings.batch_size)
        if settings.step is not None:
            positive(step=settings.step)
        self.settings, self.kind = settings, _kind(like)
        self.ball: Ball = make_ball(settings.norm, settings.eps, like.numel())
        options = dict(settings.options)
        if settings.quantize and isinstance(settings.method, str):
            options = grid_options(find_method(settings.method).options()) | options
        resolved = resolve_method(
            settings.method, norm=settings.norm, step=settings.step, options=options, targeted=settings.targeted
        )
        self.method, self.attack = resolved.method, resolved.attack
        if settings.quantize:
            self.attack = Quantized(self.attack)
            self.ball = GridBall(self.ball)
        opened = open_target(target)
        check_target(opened, like, whitebox=self.method.whitebox)
        mask = Mask.of(settings.outputs, settings.reveals, settings.decimals)
        loss = settings.loss or loss_of(self.method, targeted=settings.targeted)
        outputs = settings.outputs if mask is None else "probs"
        objective = Objective(loss, outputs, settings.targeted)
        self.oracle = Oracle(opened, objective, settings.batch_size, mask)
        self.oracle.learn_classes(like)
        self.prior = as_prior(
            settings.surrogate, objective, like, combine=settings.combine, batch_size=settings.batch_size,
            classes=self.oracle.classes,
        )  # fmt: skip
        if self.prior is None and self.method.needs_surrogate:
            raise InputError(f"method {self.method.name!r} needs a surrogate: give surrogate=, a white-box module")

    def task(self, index: int, image: Image) -> Task:
        """The task of one image, checked."""
        check_pixels(image.x, rank=3)
        if _kind(image.x) != self.kind:
            raise InputError(
                f"all images of a run have one shape, dtype and device, got {_kind(image.x)} after {self.kind}"
            )
        for label in (image.label, image.target_label):
            if label is not None:
                self.oracle.check_label(label)
        if (image.target_label is not None) != self.settings.targeted:
            raise InputError("a targeted run (targeted=True) needs a target_label for every image, others take none")
        if image.target_label is not None and image.target_label == image.label:
            raise InputError(f"image {index}: the wanted class {image.label} is its label already")
        self.attack.check(image.x)
        return Task(
            index=index,
            id=image.id or image_id(image.x, image.label),
            x=snapped(image.x) if self.settings.quantize else image.x.detach(),
            label=image.label,
            wanted=image.target_label,
            attack=self.attack,
            ball=self.ball,
            budget=self.settings.budget,
            seed=self.settings.seed,
            method=self.method.name,
            accept=Accept(self.settings.accept),
        )

    def outcomes(self, tasks: Iterable[Task], journal: Journal | None = None) -> Iterator[Outcome]:
        """Drive the tasks; a journal remembers what was paid for."""
        observers = list(self.settings.observers)
        if self.settings.on_progress is not None:
            observers.append(_Calling(self.settings.on_progress))
        return drive(
            tasks, self.oracle, self.prior, concurrency=self.settings.concurrency, observers=observers, journal=journal,
            repeats=self.settings.repeats, verify=self.settings.verify,
        )  # fmt: skip


def _kind(x: Tensor) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    return tuple(x.shape), x.dtype, x.device


class _Calling(Observer):
    """Hands every Progress to a function."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress

    def progressed(self, progress: Progress) -> None:
        self.on_progress(progress)
