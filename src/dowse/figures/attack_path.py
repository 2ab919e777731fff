"""The path of a P-RGF attack with λ*, watched: its gradients, α and λ* at each iterate, and the true gradient there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from dowse.api import attack, estimate
from dowse.attacks import PGD, Attack
from dowse.core.flow import Flow, Note, PriorAt, Query, gradient_at
from dowse.errors import InputError
from dowse.estimators import PRGF, Estimator
from dowse.estimators.rgf import State
from dowse.figures.figure_settings import FigureSettings
from dowse.figures.scene import Scene
from dowse.maths.geometry import Ball


@dataclass(frozen=True)
class _TrueGradient:
    """A conversation of one question, to a white-box target: its gradient at the image."""

    name = "true gradient"
    whitebox = True

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """∇f at x, (*s)."""
        return (yield from gradient_at(x))


def true_gradients(target: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    """∇f at each point, f the cross-entropy of Eq. (2): (n, C, H, W), (n,) -> (n, C, H, W)."""
    result = attack(target, points, labels, method=_TrueGradient(), accept="never")
    failed = next((outcome for outcome in result.outcomes if outcome.value is None), None)
    if failed is not None:
        raise InputError(f"the target gave no gradient. {failed.end.sentence} {failed.cause or ''}".rstrip())
    return torch.stack([outcome.value for outcome in result.outcomes])


def row_cosines(a: Tensor, b: Tensor) -> list[float]:
    """The cosine of each row of a to the same row of b, (n, *s) and (n, *s) -> n numbers; 0 for a zero row."""
    a, b = a.flatten(1).double(), b.flatten(1).double()
    lengths = torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1)
    products = (a * b).sum(1)
    found: list[float] = torch.where(lengths > 0, products / lengths.clamp_min(1e-300), 0.0).tolist()
    return found


@dataclass(frozen=True)
class Step:
    """One iteration of an attack, as it saw it.

    Attributes:
        x: The iterate, (*s).
        transfer: The surrogate's gradient there, (*s).
        estimate: The estimate ĝ that the step follows, (*s).
        alpha: The estimated α, Eq. (8).
        lam: λ*, Eq. (12).
    """

    x: Tensor
    transfer: Tensor
    estimate: Tensor
    alpha: float
    lam: float


@dataclass
class Watched(Estimator[State]):
    """An estimator at its usual work, while all it asks and hears of importance is written down."""

    estimator: PRGF
    steps: list[Step] = field(default_factory=list)
    verdicts: list[bool] = field(default_factory=list)
    """Whether the iterate after each step fools the target; a step whose iterate ends the attack has none."""

    def init(self, x: Tensor) -> State:
        """The estimator's own."""
        return self.estimator.init(x)

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """The estimator's own, ĝ at x, (*s); every question and answer passes unchanged."""
        flow, answer = self.estimator.estimate(state, x, f, rng), None
        transfer, notes = torch.zeros_like(x), {"alpha": math.nan, "lam": math.nan}
        while True:
            try:
                question = flow.send(answer)
            except StopIteration as end:
                ĝ, state = end.value
                self.steps.append(Step(x, transfer, ĝ, notes["alpha"], notes["lam"]))
                return ĝ, state
            answer = yield question
            match question:
                case PriorAt():
                    transfer = answer
                case Note(values):
                    notes.update(values)


@dataclass(frozen=True)
class Walk(Attack):
    """PGD, Eq. (3), on a watched estimator, for so many iterations at most."""

    name = "prgf"  # the random stream is that of the plain attack, and so is the path
    needs_surrogate = True

    estimator: Watched
    iterations: int

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[None]:
        """Attack x, (*s)."""
        flow, answer, left = PGD(self.estimator).flow(x, f, ball, rng), None, self.iterations
        while left:
            question = flow.send(answer)
            answer = yield question
            if isinstance(question, Query) and question.candidate:
                self.estimator.verdicts.append(bool(answer.adversarial[-1]))
                left -= 1
        flow.close()


@dataclass(frozen=True)
class Trail:
    """One image's attack in numbers, each a list with an entry an iteration, the first at the original.

    Attributes:
        name: The image.
        fooled: Whether an iterate fools the target.
        under_attack: How many iterations it took; those beyond, if any, are past success.
        queries: What all of them cost.
        alpha: The estimated α, Eq. (8).
        lam: λ* of it, Eq. (12).
        transfer: The cosine of the transfer gradient to the true one: what α estimates, but for the sign.
        estimated: The cosine of ĝ to the true gradient.
        fixed: The cosines of estimates with each fixed λ at the same iterates, a list an iteration; may be empty.
    """

    name: str
    fooled: bool
    under_attack: int
    queries: int
    alpha: list[float]
    lam: list[float]
    transfer: list[float]
    estimated: list[float]
    fixed: list[list[float]]


def follow(scene: Scene, setting: FigureSettings, index: int, lambdas: Sequence[float] = ()) -> Trail:
    """Attack one image by P-RGF with λ* and compare what it saw with the truth, and with fixed λ if any are given."""
    x, label = scene.images[index : index + 1], scene.labels[index : index + 1]
    watched = Watched(PRGF(q=setting.q, norm_period=setting.norm_period))
    outcome = attack(
        scene.asked,
        x,
        label,
        method=Walk(watched, setting.iterations),
        surrogate=scene.surrogate,
        norm=setting.norm,
        budget=setting.budget,
        seed=setting.seed,
        accept="never" if setting.past_success else "iterate",
    ).outcomes[0]
    steps = watched.steps
    if not steps:
        raise InputError(
            f"the attack on {scene.names[index]} ended before its first estimate ({outcome.end.sentence}): "
            f"give a budget above {setting.budget}"
        )
    fooling = [*watched.verdicts, outcome.success]
    points = torch.stack([step.x for step in steps])
    truth = true_gradients(scene.target, points, label.expand(len(points)))
    return Trail(
        name=scene.names[index],
        fooled=any(fooling),
        under_attack=fooling.index(True) + 1 if True in watched.verdicts else len(steps),
        queries=outcome.queries,
        alpha=[step.alpha for step in steps],
        lam=[step.lam for step in steps],
        transfer=row_cosines(torch.stack([step.transfer for step in steps]), truth),
        estimated=row_cosines(torch.stack([step.estimate for step in steps]), truth),
        fixed=_fixed(scene, setting, points, label.expand(len(points)), truth, lambdas),
    )


def _fixed(
    scene: Scene, setting: FigureSettings, points: Tensor, labels: Tensor, truth: Tensor, lambdas: Sequence[float]
) -> list[list[float]]:
    """The cosines to the true gradients, (n, *s), of estimates with fixed λ at the points, (n, *s): n lists."""
    columns = []
    for λ in lambdas:
        q = setting.q if λ < 1 else 1  # at λ = 1 all q directions of Eq. (11) are v
        made = estimate(
            scene.asked, points, labels, method=PRGF(q=q, lam=λ), surrogate=scene.surrogate, norm=setting.norm,
            seed=setting.seed,
        )  # fmt: skip
        columns.append(row_cosines(made.gradient, truth))
    return [list(row) for row in zip(*columns, strict=True)]
