"""Seeded runs of every method on a fixed float64 target, in numbers: what the golden file pins.

`python -m tests.golden.traces` writes the file anew. A trace that changed means that results of users change: a
reason is owed in CHANGELOG.md.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import dowse
from dowse.attacks.registry import METHODS
from dowse.core.flow import Query
from dowse.core.observers import Observer
from dowse.core.reply import Reply
from dowse.core.task import Task
from tests.support import Tanh, pictures

FILE = Path(__file__).with_name("traces.json")
IMAGES, BUDGET = 2, 60
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in METHODS},
    "rgf subspace": ("rgf", {"subspace": 3}),
    "prgf lam": ("prgf", {"lam": 0.05}),
    "prgf subspace": ("prgf", {"subspace": 3}),
    "prgf exact subspace": ("prgf", {"subspace": 3, "exact_subspace": True}),
    "prgf gamma": ("prgf", {"subspace": 3, "gamma": 3.5}),
    "averaging mu": ("averaging", {"mu": 0.5}),
    "averaging subspace": ("averaging", {"subspace": 3}),
    "bandits subspace": ("bandits", {"subspace": 3}),
    "autozoom in the ball": ("autozoom", {"shrink": False}),
    "dowse alone": ("dowse", {}),
}
ALONE = {"dowse alone"}  # without a surrogate
OF_SEVERAL = {"bases"}  # with a single surrogate nothing but rounding decides between its weights
SMALL = {"q": 6, "norm_samples": 4, "coordinates": 5}  # so that a budget of 60 holds several iterations


class Tracer(Observer):
    """The losses of the iterates and the notes of an attack, by image."""

    def __init__(self) -> None:
        self.losses: dict[int, list[float]] = {}
        self.notes: dict[int, list[dict[str, float]]] = {}

    def answered(self, task: Task, query: Query, reply: Reply) -> None:
        if query.candidate and reply.answer is not None:
            self.losses.setdefault(task.index, []).append(float(reply.answer.loss[0]))

    def noted(self, task: Task, values: dict[str, float]) -> None:
        self.notes.setdefault(task.index, []).append(values)


class Shaken(nn.Module):
    """Answers like a network whose sums another processor rounds otherwise, and fifty times as far off as any would."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x)
        return scores + 1e-14 * torch.sin(1e7 * scores.detach())


def trace(title: str, norm: str, shaken: bool = False) -> list[dict[str, Any]]:
    """One method's first iterates on each image."""
    name, options = VARIANTS[title]
    known = METHODS[name].options()
    options = {key: value for key, value in SMALL.items() if key in known} | options
    if name == "autozoom":
        del options["q"]
    target, tracer = Tanh(seed=5), Tracer()
    seeds = () if title in ALONE else (7, 9) if name in OF_SEVERAL else (7,)
    nets = [target, *(Tanh(seed, near=target, apart=3.0) for seed in seeds)]  # so far apart that λ* is not always 1
    seen, *surrogates = [Shaken(net) for net in nets] if shaken else nets
    result = dowse.attack(
        seen,
        pictures(IMAGES, seed=6),
        method=name,
        surrogate=surrogates or None,
        norm=norm,
        eps=0.35 if norm == "l2" else 0.05,
        budget=BUDGET,
        seed=8,
        ids=[str(i) for i in range(IMAGES)],
        observers=[tracer],
        **options,
    )
    return [
        {
            "end": str(outcome.end),
            "queries": outcome.queries,
            "distance": outcome.distance,
            "losses": tracer.losses.get(i, [])[:6],
            "notes": tracer.notes.get(i, [])[:3],
        }
        for i, outcome in enumerate(result.outcomes)
    ]


def all_traces() -> dict[str, list[dict[str, Any]]]:
    """Every variant in both norms."""
    return {f"{title}, {norm}": trace(title, norm) for title in VARIANTS for norm in ("l2", "linf")}


if __name__ == "__main__":
    torch.set_num_threads(1)
    FILE.write_text(json.dumps(all_traces(), indent=1) + "\n", encoding="utf-8")
