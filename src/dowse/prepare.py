"""A run: one target, one method, one set of settings, made ready for images and checked before any query."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from dowse.attacks.quantized import Quantized
from dowse.attacks.registry import resolve_method
from dowse.core.conversation import Accept, Task
from dowse.core.driver import drive
from dowse.core.inputs import Image, check_pixels, check_target
from dowse.core.method import loss_of
from dowse.core.observers import Journal, Observer, Progress
from dowse.core.oracle import Oracle
from dowse.core.result import Outcome
from dowse.core.seeds import image_id
from dowse.core.target import TargetLike
from dowse.errors import InputError
from dowse.maths.geometry import Ball, make_ball
from dowse.maths.grid import GridBall, snapped
from dowse.maths.losses import Objective
from dowse.settings import AttackSettings
from dowse.surrogates.prior import SurrogateLike, as_prior
from dowse.targets import Mask, open_target

OnProgress = Callable[[Progress], None]


class Run:
    """Settings made ready for images like `like`, (C, H, W).

    Args:
        target: From points (n, C, H, W) in [0, 1] to scores (n, K), or the spec string of such a target.
        settings: What the caller said.
        like: One image, for its shape, dtype and device.
        surrogate: The white-box modules, or their specs, for a method that needs one.
        observers: Who is told of every question and answer.
        on_progress: Called with a Progress after every round.
    """

    def __init__(
        self,
        target: TargetLike | str,
        settings: AttackSettings,
        like: Tensor,
        *,
        surrogate: SurrogateLike | Sequence[SurrogateLike] | None = None,
        observers: Sequence[Observer] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        self.settings, self.kind = settings, _kind(like)
        self.observers = [*observers, *([] if on_progress is None else [_Calling(on_progress)])]
        self.attack = resolve_method(settings)
        self.ball: Ball = make_ball(settings.norm, settings.eps, like.numel())
        if settings.quantize:
            self.attack, self.ball = Quantized(self.attack), GridBall(self.ball)
        opened = open_target(target)
        check_target(opened, like, whitebox=self.attack.whitebox)
        mask = Mask.of(settings.outputs, settings.reveals, settings.decimals)
        loss = settings.loss or loss_of(self.attack, targeted=settings.targeted)
        outputs = settings.outputs if mask is None else "probs"
        objective = Objective(loss, outputs, settings.targeted)
        self.oracle = Oracle(opened, objective, settings.batch_size, mask)
        self.oracle.learn_classes(like)
        self.prior = as_prior(
            surrogate, objective, like, combine=settings.combine, batch_size=settings.batch_size,
            classes=self.oracle.classes,
        )  # fmt: skip
        if self.prior is None and self.attack.needs_surrogate:
            raise InputError(f"method {self.attack.name!r} needs a surrogate: give surrogate=, a white-box module")

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
            method=self.attack.name,
            accept=Accept(self.settings.accept),
        )

    def outcomes(self, tasks: Iterable[Task], journal: Journal | None = None) -> Iterator[Outcome]:
        """Drive the tasks; a journal remembers what was paid for."""
        return drive(
            tasks, self.oracle, self.prior, concurrency=self.settings.concurrency, observers=self.observers,
            journal=journal, repeats=self.settings.repeats, verify=self.settings.verify,
        )  # fmt: skip


def _kind(x: Tensor) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    return tuple(x.shape), x.dtype, x.device


class _Calling(Observer):
    """Hands every Progress to a function."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress

    def progressed(self, progress: Progress) -> None:
        self.on_progress(progress)
