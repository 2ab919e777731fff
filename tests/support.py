"""Small targets with known answers, targets that misbehave on purpose, and a way to talk to a flow without any.

The rule for every test that compares numbers, in full in docs/testing.md: it stands on one of two grounds. Either they
are equal by construction, since the networks are those of tests/nets.py, whose rows no other row and no processor
changes, or both sides come of the same call; or they are compared up to a stated tolerance within which no decision
flips, and `Gap` says how far the decisions were. Whatever stands on neither fails under DOWSE_TEST_ROUNDING=1.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

import dowse
from dowse.core.flow import Answer, Note, PriorAt, Query, Question
from tests.nets import SHAPE, generator
from tests.nets import D as D
from tests.nets import Linear as Linear
from tests.nets import Tanh as Tanh


def pictures(n: int, seed: int = 0, dtype: torch.dtype = torch.float64, shape: tuple[int, ...] = SHAPE) -> Tensor:
    """n random images, (n, *shape), away from the ends of [0, 1]."""
    return (0.2 + 0.6 * torch.rand(n, *shape, generator=generator(seed), dtype=torch.float64)).to(dtype)


def attack_anyway(*args: Any, **settings: Any) -> dowse.Result:
    """What becomes of images, also where the target fails on all of them and `dowse.attack` raises for that."""
    try:
        return dowse.attack(*args, **settings)
    except dowse.TargetFailedError as error:
        return dowse.Result(error.outcomes)


class Counter(nn.Module):
    """Sees every row that is handed to the target, whether it is answered or not."""

    def __init__(self, target: Callable[..., Tensor]) -> None:
        super().__init__()
        self.target, self.rows, self.batches = target, 0, []
        self.takes_row_seeds = getattr(target, "takes_row_seeds", False)
        self.detector = getattr(target, "detector", None)
        self.eval()

    def forward(self, x: Tensor, **more: Any) -> Tensor:
        self.rows += len(x)
        if len(x):
            self.batches.append(len(x))
        return self.target(x, **more)


class Gap(nn.Module):
    """Remembers how near the two best scores of any row came: less than half of that changes no decision."""

    def __init__(self, target: nn.Module) -> None:
        super().__init__()
        self.target, self.least = target, math.inf
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.target(x)
        if len(x):
            best = scores.detach().topk(2, 1).values
            self.least = min(self.least, float((best[:, 0] - best[:, 1]).min()))
        return scores


class Faulty(nn.Module):
    """Raises at chosen calls; calls with no rows are not counted."""

    def __init__(self, target: nn.Module, calls: Iterable[int]) -> None:
        super().__init__()
        self.target, self.calls, self.call = target, frozenset(calls), -1
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        if len(x):
            self.call += 1
        if self.call in self.calls:
            raise ConnectionError(f"call {self.call} failed")
        return self.target(x)


class NotFinite(nn.Module):
    """Answers with a bad number about every row that `where`, (n, *s) -> (n,) bool, chooses."""

    def __init__(self, target: nn.Module, where: Callable[[Tensor], Tensor], value: float = math.nan) -> None:
        super().__init__()
        self.target, self.where, self.value = target, where, value
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        scores = self.target(x)
        bad = self.where(x).unsqueeze(1) & (torch.arange(scores.shape[1]) == 0)
        return torch.where(bad, self.value, scores)


class Noisy(nn.Module):
    """A defence that adds noise to the pixels, drawn row by row from the seeds it is given."""

    takes_row_seeds = True

    def __init__(self, target: nn.Module, scale: float) -> None:
        super().__init__()
        self.target, self.scale = target, scale
        self.eval()

    def forward(self, x: Tensor, seeds: Tensor) -> Tensor:
        noise = [torch.randn(x.shape[1:], generator=generator(int(s)), dtype=x.dtype) for s in seeds]
        return self.target(x + self.scale * torch.stack(noise) if noise else x)


class Quantised(nn.Module):
    """Scores rounded to a grid, so that small steps change nothing."""

    def __init__(self, target: nn.Module, grid: float) -> None:
        super().__init__()
        self.target, self.grid = target, grid
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return (self.target(x) / self.grid).round() * self.grid


def takes_rows(target: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    """A target that refuses a forward pass of zero rows, so that K is unknown until its first answer."""

    def answer(x: Tensor) -> Tensor:
        if not len(x):
            raise ValueError("no rows")
        return target(x)

    return answer


def labels_of(target: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return target(x).argmax(1)


def converse(
    flow: Any, answer: Callable[[Query], Answer], prior: Callable[[Tensor], Tensor] | None = None, *, candidates: int
) -> tuple[list[int], list[dict[str, float]]]:
    """Talk to a flow with canned answers, up to so many iterates.

    Returns:
        The rows it asked about per iteration, the iterate's check included, and the notes it left.
    """
    spent, rows, notes = [], 0, []
    question: Question = next(flow)
    while True:
        match question:
            case Note(values):
                notes.append(dict(values))
                question = flow.send(None)
            case PriorAt(x):
                assert prior is not None, "the flow asks for a surrogate's gradient"
                question = flow.send(prior(x))
            case Query(points, candidate):
                rows += len(points)
                reply = answer(question)
                if candidate:
                    spent.append(rows)
                    rows = 0
                    if len(spent) == candidates:
                        flow.close()
                        return spent, notes
                question = flow.send(reply)


def estimate_of(
    estimator: Any, x: Tensor, loss: Callable[[Tensor], Tensor], v: Tensor | None = None, seed: int = 0
) -> tuple[Tensor, int]:
    """One estimate at x, (*s), from canned losses and a fixed transfer gradient v: ĝ, (*s), and the rows it asked."""
    flow, rows = estimator.estimate(estimator.init(x), x, float(loss(x.unsqueeze(0))), generator(seed)), 0
    reply: Any = None
    while True:
        try:
            question = flow.send(reply)
        except StopIteration as stop:
            return stop.value[0], rows
        match question:
            case Query(points):
                rows, reply = rows + len(points), canned(loss)(question)
            case PriorAt():
                assert v is not None
                reply = v.clone()
            case _:
                reply = None


def canned(loss: Callable[[Tensor], Tensor]) -> Callable[[Query], Answer]:
    """Answers whose loss is a function of the points, (n, *s) -> (n,), and nothing is ever adversarial."""

    def answer(query: Query) -> Answer:
        n = len(query.points)
        return Answer(loss(query.points), torch.zeros(n, dtype=torch.bool), torch.zeros(n, 2, dtype=torch.float64))

    return answer


def minimal_distance(w: Tensor, margin: float, x: Tensor, norm: str, box: bool = True) -> float:
    """The least ‖δ‖ with wᵀδ = margin and x + δ in [0, 1]: what it takes to cross a hyperplane.

    For l2 the optimum is δ = clip(t·w), for l∞ it is clip(t·sign w), clipped to the box pixel by pixel, for the t at
    which wᵀδ reaches the margin; wᵀδ grows with t, so bisection finds it.
    """
    w, x = w.flatten().double(), x.flatten().double()
    direction = w if norm == "l2" else w.sign()
    low, high = (-x, 1 - x) if box else (-torch.inf, torch.inf)

    def δ(t: float) -> Tensor:
        return (t * direction).clamp(low, high)

    lower, upper = 0.0, 1.0
    while float(w @ δ(upper)) < margin:
        upper *= 2
        assert upper < 1e12, "no image in [0, 1] lies beyond the hyperplane"
    for _ in range(200):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if float(w @ δ(middle)) < margin else (lower, middle)
    return float(torch.linalg.vector_norm(δ(upper), 2 if norm == "l2" else torch.inf))


class Convolutions(nn.Sequential):
    """A small network of what rounds otherwise with every number of rows: convolutions and a matrix product."""

    steady = True

    def __init__(self, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            super().__init__(
                nn.Conv2d(3, 8, 7, stride=3), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=3), nn.ReLU(),
                nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 4),
            )  # fmt: skip
        self.eval().requires_grad_(False)
