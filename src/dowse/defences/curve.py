"""The loss curve of a training, as a table and as a picture."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SMOOTHING = 20  # steps that the drawn line averages over


def write_curve(losses: Sequence[float], folder: Path) -> tuple[Path, Path]:
    """Write `loss.csv`, one line a step, and `loss.png` into a folder; returns both paths."""
    table, picture = folder / "loss.csv", folder / "loss.png"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("step", "loss"))
        writer.writerows((step, f"{loss:.6g}") for step, loss in enumerate(losses, 1))
    _draw(np.asarray(losses), picture)
    return table, picture


def _draw(losses: np.ndarray, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = np.arange(1, len(losses) + 1)
    axes.plot(steps, losses, color="0.8", linewidth=0.8, label="each step")
    if len(losses) >= SMOOTHING:
        mean = np.convolve(losses, np.full(SMOOTHING, 1 / SMOOTHING), "valid")
        axes.plot(steps[SMOOTHING - 1 :], mean, color="C0", label=f"mean of {SMOOTHING} steps")
    if len(losses):
        axes.axhline(losses[0], color="C3", linestyle="--", linewidth=0.8, label="step 1: nothing denoised yet")
        axes.legend(frameon=False)
    axes.set(xlabel="step", ylabel="mean difference of logits", ylim=(0, None))
    figure.savefig(path, dpi=150)
