"""Figures 1d and 1e: λ*, and the cosines of transfer and estimated gradient to the true one, along the iterations."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dowse.figures import style
from dowse.figures.bootstrap_bands import Band, by_iteration
from dowse.figures.panel import Laboratory, Numbers, Panel

FEWEST = 3  # a mean of fewer images is not drawn


class Curve(NamedTuple):
    """A mean along the iterations, (k,), and over how many images, (k,)."""

    band: Band
    images: NDArray[np.int64]

    @property
    def drawn(self) -> int:
        """How many iterations there are with images enough, and at least one."""
        enough = min(FEWEST, int(self.images[0]))
        return int((self.images >= enough).sum())


def curve(numbers: Numbers, word: str) -> Curve:
    """The mean of one of the lists of a figure's numbers over the images that are followed at each iteration."""
    return Curve(*by_iteration(numbers[word]))


def compute_lambda(lab: Laboratory) -> Numbers:
    """λ* and the estimated α at each iteration of each image."""
    return _columns(lab, "lam", "alpha")


def compute_cosines(lab: Laboratory) -> Numbers:
    """The cosines to the true gradient at each iteration of each image."""
    return _columns(lab, "transfer", "estimated")


def _columns(lab: Laboratory, *words: str) -> Numbers:
    """What the trails say under these words, and of each image how it stood."""
    return {word: [getattr(trail, word) for trail in lab.trails] for word in (*words, "fooled", "under_attack")}


def draw_lambda(figure: style.AnyFigure, numbers: Numbers) -> None:
    """λ* along the iterations, and under it how many images are there."""
    found = curve(numbers, "lam")
    main = _axes(figure, found, numbers["under_attack"])
    _plot(main, found, style.VERMILION, "λ*")
    main.set(ylabel="average λ*", ylim=(0, None), title="(d) λ* along the attack")


def draw_cosines(figure: style.AnyFigure, numbers: Numbers) -> None:
    """Both cosines along the iterations, and under them how many images are there."""
    transfer, estimated = curve(numbers, "transfer"), curve(numbers, "estimated")
    main = _axes(figure, transfer, numbers["under_attack"])
    _plot(main, estimated, style.VERMILION, "estimated gradient")
    _plot(main, transfer, style.BLUE, "transfer gradient", "--")
    main.set(ylabel="cosine to the true gradient", title="(e) cosines along the attack")
    main.set_ylim(bottom=min(0.0, main.get_ylim()[0]))
    main.legend(loc="best")


def _axes(figure: style.AnyFigure, found: Curve, under_attack: Sequence[int]) -> Axes:
    """Axes for the means, with the number of images in a strip below: of all bars the dark part is under attack yet."""
    main: Axes
    strip: Axes
    main, strip = figure.subplots(2, 1, sharex=True, height_ratios=(4.2, 1))
    iterations = np.arange(found.drawn)
    strip.bar(iterations, found.images[: found.drawn], color=style.RULE, width=0.9)
    strip.bar(
        iterations, [len([n for n in under_attack if n > t]) for t in range(found.drawn)], color=style.QUIET, width=0.9
    )
    most = int(found.images[0])
    ticks = range(0, found.drawn, -(-found.drawn // 7))  # seven at most
    strip.set(xlabel="iteration", xticks=ticks, xlim=(-0.6, found.drawn - 0.4))
    strip.set(ylabel="not yet\nfooled", ylim=(0, 1.1 * most), yticks=[0, most])
    strip.grid(False)
    main.tick_params(labelbottom=False)
    return main


def _plot(axes: Axes, found: Curve, colour: str, label: str, line: str = "-") -> None:
    iterations, (mean, low, high) = np.arange(found.drawn), (part[: found.drawn] for part in found.band)
    axes.fill_between(iterations, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(iterations, mean, color=colour, linestyle=line, marker="o", markersize=2.6, label=label)


def _ends(numbers: Numbers, word: str) -> tuple[float, float, int, int]:
    """The first mean, the last one drawn, its iteration, and its images."""
    found = curve(numbers, word)
    last = found.drawn - 1
    return float(found.band.mean[0]), float(found.band.mean[last]), last, int(found.images[last])


def _left(numbers: Numbers, iteration: int, images: int) -> str:
    """How many images a mean is over, and how many of them are not fooled yet."""
    unfooled = sum(n > iteration for n in numbers["under_attack"])
    return f"where {images} images are left" + ("" if unfooled == images else f", {unfooled} of them not fooled yet")


def lambda_sentence(numbers: Numbers) -> str:
    """λ* at the beginning and at the end."""
    first, last, iteration, images = _ends(numbers, "lam")
    return (
        f"λ* is {first:.3f} on average at the {len(numbers['lam'])} originals and {last:.3f} at iteration {iteration}, "
        f"{_left(numbers, iteration, images)}"
    )


def cosine_sentence(numbers: Numbers) -> str:
    """Both cosines at the beginning and at the end."""
    first, last, iteration, images = _ends(numbers, "transfer")
    began, ended, *_ = _ends(numbers, "estimated")
    return (
        f"the transfer gradient's cosine goes from {first:.3f} at the {len(numbers['transfer'])} originals to "
        f"{last:.3f} at iteration {iteration}, {_left(numbers, iteration, images)}; the estimate's from {began:.3f} to "
        f"{ended:.3f}"
    )


FIGURE1D = Panel(
    "figure1d", "λ* along the iterations", lambda numbers: (3.5, 2.9), compute_lambda, draw_lambda, lambda_sentence
)
FIGURE1E = Panel(
    "figure1e", "cosine of transfer and of estimated gradient along the iterations", lambda numbers: (3.5, 2.9),
    compute_cosines, draw_cosines, cosine_sentence,
)  # fmt: skip
