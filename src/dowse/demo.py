"""The demo: a real classifier, a real surrogate of another family, real photographs, three methods side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dowse import models
from dowse.api import attack
from dowse.data import ImageSet, demo_photographs, imagenet_names
from dowse.observers import Progress
from dowse.report import Attempt, Row, contact_sheet
from dowse.result import End, Result

TARGET, SURROGATE = "imagenet_mobilenetv2", "imagenet_efficientnet_lite0"
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "RGF": ("rgf", {}),
    "P-RGF": ("prgf", {}),
    "P-RGF + data prior": ("prgf", {"subspace": 50}),
}


@dataclass(frozen=True)
class Demo:
    """What the demo attacked and what came of it, by the method's title."""

    images: ImageSet
    results: dict[str, Result]
    predictions: dict[str, Tensor]


def run_demo(
    *,
    images: int,
    budget: int,
    norm: str,
    seed: int,
    on_progress: Callable[[str, Progress], None] = lambda title, progress: None,
) -> Demo:
    """Attack the demo's photographs with each of the demo's methods; on_progress hears the method's title too."""
    target, surrogate = models.load(TARGET), models.load(SURROGATE)
    photographs = demo_photographs(limit=images)
    results, predictions = {}, {}
    for title, (method, options) in METHODS.items():
        results[title] = attack(
            target,
            photographs.images,
            photographs.labels,
            method=method,
            surrogate=surrogate,
            norm=norm,  # type: ignore[arg-type]
            budget=budget,
            seed=seed,
            on_progress=lambda progress, title=title: on_progress(title, progress),  # type: ignore[misc]
            **options,
        )
        with torch.no_grad():
            predictions[title] = target(results[title].adversarial).argmax(1)
    return Demo(photographs, results, predictions)


def draw_demo(demo: Demo, path: Path, *, rows: int, title: str, subtitle: str) -> Path:
    """One picture of the first `rows` attacked images under every method."""
    names = imagenet_names()
    first = next(iter(demo.results.values()))
    attacked = [i for i, end in enumerate(first.end) if end is not End.ALREADY_WRONG][:rows]
    sheet = [
        Row(
            demo.images.images[i],
            names[demo.images.labels[i]],
            {
                title: Attempt(
                    adversarial=result.adversarial[i],
                    prediction=names[demo.predictions[title][i]],
                    queries=int(result.queries[i]),
                    fooled=bool(result.success[i]),
                )
                for title, result in demo.results.items()
            },
        )
        for i in attacked
    ]
    return contact_sheet(sheet, path, title=title, subtitle=subtitle)
