"""The public face: attack a batch, attack a stream, or only estimate a gradient."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.attacks.pgd import PGD
from dowse.attacks.registry import find_method, resolve_method, without_preset
from dowse.core.flow import Flow
from dowse.core.inputs import Image, Labels, as_image, as_labels, check_pixels
from dowse.core.method import take_facts
from dowse.core.observers import Observer
from dowse.core.outcome import End, Outcome
from dowse.core.result import Result, some_attacked
from dowse.core.task import Task
from dowse.errors import BudgetWarning, InputError, TargetFailedError, warn
from dowse.estimators.base import Estimator
from dowse.maths.geometry import Ball
from dowse.prepare import OnProgress, Run
from dowse.settings import AcceptWord, AttackSettings, Combine, LossName, Norm, Outputs, too_small
from dowse.surrogates.surrogate import SurrogateLike
from dowse.targets.model import ModelLike


def attack(
    target: ModelLike | str,
    x: Tensor,
    y: Labels | None = None,
    *,
    method: str | object = "dowse",
    surrogate: SurrogateLike | Sequence[SurrogateLike] | None = None,
    combine: Combine = "mean",
    norm: Norm = "l2",
    eps: float | None = None,
    step: float | None = None,
    budget: int = 10_000,
    seed: int = 0,
    loss: LossName | None = None,
    outputs: Outputs = "logits",
    reveals: str | None = None,
    decimals: int | None = None,
    target_labels: Labels | None = None,
    ids: Sequence[str] | None = None,
    accept: AcceptWord = "iterate",
    quantize: bool = False,
    repeats: int = 1,
    verify: int = 0,
    concurrency: int | None = None,
    batch_size: int | None = None,
    on_progress: OnProgress | None = None,
    observers: Sequence[Observer] = (),
    **options: Any,
) -> Result:
    """Attack N images and count what it cost.

    Args:
        target: An nn.Module in eval mode, or any callable, from points (n, C, H, W) in [0, 1] to scores (n, K), any
            other model (scikit-learn's, Keras', functions of numpy arrays, dowse.Model), or a spec string such as
            "dowse:imagenet_resnet18", "onnx:FILE" or "http://…" (docs/targets.md).
        x: The images, (N, C, H, W) in [0, 1], float32 or float64.
        y: Their labels, (N,); None takes the target's own, with the query that every image starts with.
        method: A name (`dowse methods` lists them), "package.module:Class", an estimator, or an object with a `flow`.
        surrogate: A white-box module from points to logits, for the methods that need one, or its spec, a
            dowse.Surrogate, a Prior, or a list of these (docs/surrogates.md).
        combine: What becomes of several surrogates: "mean" averages their normalised gradients, "cycle" takes turns.
        norm: "l2" or "linf".
        eps: The ball's radius ε of Eq. (2); None is the paper's, √(0.001·D) for l2 and 0.05 for l∞.
        step: η of Eq. (3); None is the method's own, mostly the paper's: 2 (ε/6 for small images) for l2, ε/10 for l∞.
        budget: The most queries an image may cost; never exceeded.
        seed: An image's random stream is keyed by (seed, image id, method).
        loss: "ce" or "margin"; None is the method's own, "ce" for all but autozoom.
        outputs: What the target answers with, "logits" or "probs".
        reveals: "topk:5" hides all but the five best classes, to study a target that shows less; None hides nothing.
        decimals: Rounds the target's probabilities to so many decimals before the attack sees them; None does not.
        target_labels: (N,) classes to be reached, for a targeted attack.
        ids: N names; None makes one of each image's pixels and label.
        accept: "iterate" looks for success at iterates, "any" also at probes that lie in the ball.
        quantize: Keeps every iterate and every probe an 8-bit image, so that what is found survives a picture file; the
            probes' `sigma` then starts at one level, 1/255, unless given.
        repeats: For a target that draws noise: each row is sent so often, each time a query, and the mean answers.
        verify: Re-checks a success so often; `result.verified` counts those still adversarial, `queries` none of them.
        concurrency: How many images are attacked at once, on which no result depends, but for the rounding of a network
            that is not `steady` and sees its rows in other company; None is 8, or 32 of up to 3·64·64 numbers where
            the method asks a target that is no server about a row or two at a time.
        batch_size: The most rows of one forward pass; None chooses by the image's size.
        on_progress: Called with a Progress after every round of questions.
        observers: See dowse.Observer.
        options: The method's own, such as q=50, lam=0.05, subspace=50; see `dowse methods NAME`.

    Returns:
        A Result with success (N,), queries (N,), sent (N,), adversarial (N, C, H, W), end and summary().

    Raises:
        InputError: What was passed cannot be used; no query was spent.
        TargetFailedError: The target failed on every image that was there to be attacked; its `outcomes` are what
            became of each.
    """
    if "targeted" in options:
        raise InputError("attack() takes no targeted=: target_labels= names the class that each image is to reach")
    settings = AttackSettings(
        method=method, options=options, combine=combine, norm=norm, eps=eps, step=step, budget=budget, seed=seed,
        loss=loss, outputs=outputs, reveals=reveals, decimals=decimals, targeted=target_labels is not None,
        accept=accept, quantize=quantize, repeats=repeats, verify=verify, concurrency=concurrency,
        batch_size=batch_size,
    )  # fmt: skip
    live = {"surrogate": surrogate, "observers": observers, "on_progress": on_progress}
    return _attacked(target, x, y, target_labels, ids, settings, **live)


def stream(target: ModelLike | str, images: Iterable[Any], **settings: Any) -> Iterator[Outcome]:
    """Attack any number of images lazily and yield each Outcome as it comes, in the order in which they end.

    Memory depends on concurrency, q and the image's size, never on the number of images. Each image is checked as it
    enters, the first one and all settings before any query. If the target failed and not one image could be attacked, a
    TargetFailedError follows the last outcome.

    Args:
        target: As in `attack`.
        images: Any iterable of tensors (C, H, W), pairs (x, label), triples (x, label, target_label) with
            targeted=True, or dowse.Image.
        settings: The keywords of `attack`, the method's own options among them; `targeted=True` says that every image
            comes with a target_label.
    """
    entering = (as_image(item) for item in images)
    first = next(entering, None)
    if first is None:
        raise InputError("the stream holds no image")
    check_pixels(first.x, rank=3)
    for name in ("target_labels", "ids"):
        if name in settings:
            raise InputError(f"{name}= goes with attack(); in a stream each dowse.Image carries its own")
    live = {name: settings.pop(name) for name in ("surrogate", "observers", "on_progress") if name in settings}
    said = AttackSettings.of(settings)
    run = Run(target, said, first.x, **live)
    _warn_of_budget(said)
    return some_attacked(run.outcomes(run.task(i, image) for i, image in enumerate(chain([first], entering))))


@dataclass(frozen=True)
class Estimate:
    """Estimated gradients of N images, without an attack.

    Attributes:
        gradient: ĝ of each image, (N, C, H, W); its length has no meaning for methods that return v itself.
        alpha: The estimated cosine of the transfer gradient, (N,), NaN where the method estimates none.
        lam: λ (or μ) that was used, (N,), NaN where the method has none.
        queries: (N,) int64, the first f(x) included.
        end: N ends; EXHAUSTED is the good one here.
    """

    gradient: Tensor
    alpha: Tensor
    lam: Tensor
    queries: Tensor
    end: list[End]


def estimate(
    target: ModelLike | str,
    x: Tensor,
    y: Labels | None = None,
    *,
    method: str | object = "prgf",
    surrogate: SurrogateLike | Sequence[SurrogateLike] | None = None,
    **settings: Any,
) -> Estimate:
    """Estimate ∇f once at each image, (N, C, H, W), without PGD: ĝ, α, λ* and the queries spent.

    Args:
        target: As in `attack`.
        x: The images, (N, C, H, W) in [0, 1].
        y: Their labels, (N,); None takes the target's own.
        method: An estimator: "rgf", "prgf", "averaging", …, or an object of your own.
        surrogate: As in `attack`.
        settings: The other keywords of `attack` that make sense here, the method's own options among them.
    """
    if "accept" in settings:
        raise InputError("accept= says where an attack looks for success; an estimate looks for none: leave it out")
    notes = _LastNotes()
    live = {"surrogate": surrogate, "on_progress": settings.pop("on_progress", None),
            "observers": [notes, *settings.pop("observers", ())]}  # fmt: skip
    wanted, ids = settings.pop("target_labels", None), settings.pop("ids", None)
    said = AttackSettings.of({"targeted": wanted is not None, **settings, "method": method, "accept": "never"})
    resolved = resolve_method(said)
    if not isinstance(resolved, PGD):
        raise InputError(f"method {resolved.name!r} is a whole attack and has no estimator to run by itself")
    once = replace(said, method=_Once(resolved.estimator), options={})
    result = _attacked(target, x, y, wanted, ids, once, **live)
    zero = torch.zeros_like(x[0])
    return Estimate(
        gradient=torch.stack([zero if o.value is None else o.value for o in result.outcomes]),
        alpha=torch.tensor([notes.of(i, "alpha") for i in range(len(x))], dtype=torch.float64),
        lam=torch.tensor([notes.of(i, "lam", "mu") for i in range(len(x))], dtype=torch.float64),
        queries=result.queries,
        end=result.end,
    )


def _attacked(
    target: ModelLike | str,
    x: Tensor,
    y: Labels | None,
    target_labels: Labels | None,
    ids: Sequence[str] | None,
    settings: AttackSettings,
    **live: Any,
) -> Result:
    """What becomes of N images, (N, C, H, W)."""
    check_pixels(x, rank=4)
    labels, wanted = as_labels("y", y, len(x)), as_labels("target_labels", target_labels, len(x))
    if ids is not None and len(ids) != len(x):
        raise InputError(f"ids must name each of the {len(x)} images, got {len(ids)}")
    names = [None] * len(x) if ids is None else [str(name) for name in ids]
    run = Run(target, settings, x[0], **live)
    _warn_of_budget(settings)
    images = (Image(*parts) for parts in zip(x, labels, wanted, names, strict=True))
    outcomes: list[Outcome] = []
    try:
        outcomes.extend(some_attacked(run.outcomes([run.task(i, image) for i, image in enumerate(images)])))
    except TargetFailedError as error:
        error.outcomes = Result(outcomes).outcomes
        raise
    return Result(outcomes)


def _warn_of_budget(settings: AttackSettings) -> None:
    """Warn of a budget with which a named method cannot succeed; an object's options have no names."""
    if not isinstance(settings.method, str):
        return
    kind = find_method(settings.method)
    options = kind.options() | without_preset(kind, settings.options)
    if why := too_small(settings.budget, options, repeats=settings.repeats, accept=settings.accept):
        warn(f"{kind.name} {why}", BudgetWarning)


@dataclass(frozen=True)
class _Once(Attack):
    """An attack that estimates one gradient and returns it."""

    estimator: Estimator[Any]

    def __post_init__(self) -> None:
        take_facts(self, self.estimator)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        ĝ, _ = yield from self.estimator.estimate(self.estimator.init(x), x, f, rng)
        return ĝ

    def check(self, x: Tensor) -> None:
        self.estimator.check(x)


@dataclass
class _LastNotes(Observer):
    """The last note of each image."""

    values: dict[int, dict[str, float]] = field(default_factory=dict)

    def noted(self, task: Task, values: dict[str, float]) -> None:
        self.values[task.index] = values

    def of(self, index: int, *names: str) -> float:
        values = self.values.get(index, {})
        return next((values[name] for name in names if name in values), math.nan)
