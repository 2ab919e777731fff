"""A run: one target, one method, one set of settings, made ready for images and checked before any query."""

import math
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.attacks.quantized import Quantized
from dowse.attacks.registry import resolve_method
from dowse.attacks.stepped import Stepped, stepped
from dowse.core.conversation import Accept, Rules
from dowse.core.driver import drive
from dowse.core.inputs import Image, check_pixels, check_target
from dowse.core.method import loss_of
from dowse.core.observers import AnswerLog, Observer, Progress
from dowse.core.oracle import Oracle
from dowse.core.outcome import Outcome
from dowse.core.packing import images_at_once
from dowse.core.seeds import image_id
from dowse.core.task import Task
from dowse.errors import InputError, is_count
from dowse.maths.geometry import Ball, make_ball
from dowse.maths.grid import LEVEL, GridBall, snapped
from dowse.maths.losses import Objective
from dowse.preflight.first_look import first_look
from dowse.settings import AttackSettings
from dowse.surrogates.given import as_prior
from dowse.surrogates.surrogate import SurrogateLike
from dowse.targets import Mask, open_target
from dowse.targets.model import ModelLike

OnProgress = Callable[[Progress], None]


class Run:
    """Settings made ready for images like `like`, (C, H, W).

    Args:
        target: From points (n, C, H, W) in [0, 1] to scores (n, K), any other model, or its spec string.
        settings: What the caller said.
        like: One image, for its shape, dtype and device.
        attack: The settings' method, where it was made already; None makes it.
        surrogate: The white-box modules, or their specs, for a method that needs one.
        observers: Who is told of every question and answer.
        on_progress: Called with a Progress after every round.
    """

    def __init__(
        self,
        target: ModelLike | str,
        settings: AttackSettings,
        like: Tensor,
        *,
        attack: Attack | None = None,
        surrogate: SurrogateLike | Sequence[SurrogateLike] | None = None,
        observers: Sequence[Observer] = (),
        on_progress: OnProgress | None = None,
    ) -> None:
        self.settings, self.kind = settings, _kind(like)
        self.observers = [*observers, *([] if on_progress is None else [_Calling(on_progress)])]
        self.attack = stepped(attack or resolve_method(settings), quantize=settings.quantize)
        ball: Ball = make_ball(settings.norm, settings.eps, like.numel())
        if settings.norm == "l2" and ball.eps >= like.numel() ** 0.5:
            raise InputError(
                f"eps={ball.eps:g} in l2 is no smaller than √D = {like.numel() ** 0.5:.4g}, the diameter of all "
                f"images: any would do. The paper's is √(0.001·D) = {(0.001 * like.numel()) ** 0.5:.4g}"
            )
        if settings.quantize and ball.eps < LEVEL:
            raise InputError(
                f"eps={ball.eps:g} is less than a level of 8 bits, 1/255 = {1 / 255:.4g}: with quantize no pixel can "
                "move; give a larger one, or leave quantize out"
            )
        check_memory(settings.options.get("q", 1), like)
        starting = self.attack if isinstance(self.attack, Stepped) else None
        if settings.quantize:
            self.attack, ball = Quantized(self.attack), GridBall(ball)
        self.rules = Rules(
            attack=self.attack, method=self.attack.name, ball=ball, budget=settings.budget, seed=settings.seed,
            accept=Accept(settings.accept), repeats=settings.repeats, verify=settings.verify,
            target=settings.stream_target,
        )  # fmt: skip
        opened = open_target(target)
        opened.expect(settings.outputs)
        check_target(opened, like, whitebox=self.attack.whitebox)
        if opened.detector is not None and settings.repeats > 1:
            raise InputError(
                f"repeats={settings.repeats} sends every row again, and {opened.name} refuses a row that it has seen: "
                "leave repeats at 1"
            )
        mask = Mask.of(settings.outputs, settings.reveals, settings.decimals)
        loss = settings.loss or loss_of(self.attack, targeted=settings.targeted)
        outputs = settings.outputs if mask is None else "probs"
        objective = Objective(loss, outputs, settings.targeted)
        self.oracle = Oracle(opened, objective, settings.batch_size, mask)
        first_look(self.oracle, like, settings, starting)
        self.prior = as_prior(
            surrogate, objective, like, combine=settings.combine, batch_size=settings.batch_size,
            classes=self.oracle.classes,
        )  # fmt: skip
        if self.prior is not None and self.attack.looks_inside:
            self.prior.check_transparent()
        if self.prior is None and self.attack.needs_surrogate:
            raise InputError(f"method {self.attack.name!r} needs a surrogate: give surrogate=, a white-box module")

    def task(self, index: int, image: Image) -> Task:
        """The task of one image, checked."""
        return self.checked(Task(index, image.id or "", image.x, image.label, image.target_label))

    def checked(self, task: Task) -> Task:
        """A task as it is attacked, with an id, its image in one piece of memory, on the 8-bit grid if wanted.

        InputError if it cannot be attacked. The layout is the same for all from here on: sums over pixels have one
        order, and views are always possible.
        """
        try:
            check_pixels(task.x, rank=3)
            self._check_labels(task)
        except InputError as error:
            raise InputError(f"image {task.name or task.index}: {error}") from None
        if _kind(task.x) != self.kind:
            (shape, *of), (before, *of_before) = _kind(task.x), self.kind
            raise InputError(
                f"all images of a run have one shape, dtype and device, and image {task.index} is {shape}, "
                f"{of[0]} on {of[1]}, after {before}, {of_before[0]} on {of_before[1]}: bring them to one size and "
                "dtype first"
            )
        if (task.target_label is not None) != self.settings.targeted:
            raise InputError(
                "a targeted run needs a target_label for every image, others take none: give attack() target_labels=, "
                "a stream targeted=True and triples (x, label, target_label), a folder's labels.csv a column "
                "target_label"
            )
        if task.target_label is not None and task.target_label == task.label:
            raise InputError(f"image {task.index}: the wanted class {task.label} is its label already")
        self.attack.check(task.x)
        x = task.x.detach().contiguous()
        x = snapped(x) if self.settings.quantize else x
        return replace(task, x=x, id=task.id or image_id(task.x, task.label))

    def _check_labels(self, task: Task) -> None:
        """Raise InputError for a label that the target or the surrogate does not have."""
        for label in (task.label, task.target_label):
            if label is not None:
                self.oracle.check_label(label)
                if self.prior is not None:
                    self.prior.check_label(label)

    def _concurrency(self, share: int | None) -> int:
        """How many images are attacked at once; a detector that watches a whole run sees them in that order."""
        target = self.oracle.target
        sharing = self.attack.few_rows and not target.remote and target.detector is None
        usual = images_at_once(math.prod(self.kind[0]), sharing=sharing)
        return self.settings.concurrency or (usual if share is None else min(usual, max(share, 1)))

    def outcomes(
        self, tasks: Iterable[Task], log: AnswerLog | None = None, share: int | None = None
    ) -> Generator[Outcome, None, None]:
        """Drive the tasks; a log remembers what was paid for, and a share is what one of several workers takes."""
        return drive(
            tasks, self.rules, self.oracle, self.prior, concurrency=self._concurrency(share),
            observers=self.observers, log=log,
        )  # fmt: skip


def check_memory(q: Any, like: Tensor) -> None:
    """Raise InputError if q probes of images like (C, H, W) cannot be held in this machine's memory."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    wanted = q * like.numel() * like.element_size() if is_count(q) else 0
    if wanted > there:
        raise InputError(
            f"q={q:,} probes at once take {wanted / 2**30:,.0f} GiB, this machine has {there / 2**30:,.0f}: give a "
            "smaller q"
        )


def _kind(x: Tensor) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    return tuple(x.shape), x.dtype, x.device


class _Calling(Observer):
    """Hands every Progress to a function."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.on_progress = on_progress

    def progressed(self, progress: Progress) -> None:
        self.on_progress(progress)
