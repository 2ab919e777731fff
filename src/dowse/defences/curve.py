"""The loss curve of a training, as a table and as a picture."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SMOOTHING = 20  # steps that the drawn line averages over


def write_curve(losses: Sequence[float], folder: Path, warm_up: int = 0) -> tuple[Path, Path]:
    """Write `loss.csv`, one line a step, and `loss.png` into a folder; returns both paths.

    The first `warm_up` losses are differences of pixels, those after them of logits: each kind has its own axes.
    """
    table, picture = folder / "loss.csv", folder / "loss.png"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("step", "loss"))
        writer.writerows((step, f"{loss:.6g}") for step, loss in enumerate(losses, 1))
    _draw(np.asarray(losses), picture, warm_up)
    return table, picture


def _draw(losses: np.ndarray, path: Path, warm_up: int) -> None:
    from matplotlib.figure import Figure

    parts = [("mean difference of pixels", 0, losses[:warm_up])] if warm_up else []
    if not warm_up or len(losses) > warm_up:
        parts.append(("mean difference of logits", warm_up, losses[warm_up:]))
    figure = Figure(figsize=(7 * len(parts), 4), layout="constrained")
    for axes, (name, before, part) in zip(np.atleast_1d(figure.subplots(1, len(parts))), parts, strict=True):
        steps = np.arange(before + 1, before + len(part) + 1)
        axes.plot(steps, part, color="0.8", linewidth=0.8, label="each step")
        if len(part) >= SMOOTHING:
            mean = np.convolve(part, np.full(SMOOTHING, 1 / SMOOTHING), "valid")
            axes.plot(steps[SMOOTHING - 1 :], mean, color="C0", label=f"mean of {SMOOTHING} steps")
        if len(part):
            axes.axhline(part[0], color="C3", linestyle="--", linewidth=0.8, label=f"step {before + 1}")
            axes.legend(frameon=False)
        axes.set(xlabel="step", ylabel=name, ylim=(0, None))
    figure.savefig(path, dpi=150)
