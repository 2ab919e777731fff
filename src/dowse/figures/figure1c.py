"""Figure 1c: how well estimates with fixed λ point at the iterates of the λ* attack, and how well λ* does there."""

import math

import numpy as np

from dowse.figures import style
from dowse.figures.bootstrap_bands import Band, pooled
from dowse.figures.panel import Laboratory, Numbers, Panel
from dowse.maths import theory


def compute(lab: Laboratory) -> Numbers:
    """The cosines of all estimates to the true gradient, by image and iteration."""
    trails = lab.trails
    return {
        "lambdas": lab.lambdas,
        "dimension": lab.scene.images[0].numel(),
        "q": lab.setting.q,
        "fixed": [trail.fixed for trail in trails],
        "star": [trail.estimated for trail in trails],
        "transfer": [trail.transfer for trail in trails],
        "under_attack": [trail.under_attack for trail in trails],
    }


def fixed_band(numbers: Numbers) -> Band:
    """The mean cosine at each fixed λ over all iterations of all images, (k,)."""
    return pooled([np.array(image) for image in numbers["fixed"]])


def star_band(numbers: Numbers) -> Band:
    """The mean cosine with λ*, (1,)."""
    return pooled([np.array(image)[:, None] for image in numbers["star"]])


def lead_band(numbers: Numbers) -> Band:
    """By how much λ* is ahead of each fixed λ at the same iterates, (k,)."""
    pairs = zip(numbers["star"], numbers["fixed"], strict=True)
    return pooled([np.array(star)[:, None] - np.array(fixed) for star, fixed in pairs])


def theory_curve(numbers: Numbers, lambdas: np.ndarray) -> np.ndarray:
    """√F(λ) of Eq. (A.7), which the cosine is near to, averaged over the true α of all iterates: (k,) -> (k,)."""
    D, q = numbers["dimension"], numbers["q"]
    squares = [min(1.0, cosine**2) for image in numbers["transfer"] for cosine in image]
    shares = [[math.sqrt(theory.objective(float(λ), α2, D, q)) for λ in lambdas] for α2 in squares]  # Eq. (A.7)
    averaged: np.ndarray = np.mean(np.array(shares), axis=0)
    return averaged


def draw(figure: style.AnyFigure, numbers: Numbers) -> None:
    """Mean cosine against fixed λ on a log axis, and the level that λ* reaches."""
    axes = figure.subplots()
    λ, fixed, star = np.array(numbers["lambdas"]), fixed_band(numbers), star_band(numbers)
    fine = np.geomspace(λ[0], λ[-1], 200)
    axes.axhspan(float(star.low[0]), float(star.high[0]), color=style.VERMILION, alpha=0.13, linewidth=0)
    axes.axhline(float(star.mean[0]), color=style.VERMILION, label="optimal λ*")
    axes.fill_between(λ, fixed.low, fixed.high, color=style.BLUE, alpha=0.18, linewidth=0)
    axes.plot(λ, fixed.mean, color=style.BLUE, marker="o", markersize=3.5, label="fixed λ")
    axes.plot(fine, theory_curve(numbers, fine), color=style.BLACK, linewidth=1, linestyle="--", label="√F(λ), theory")
    axes.set(
        xscale="log", xlabel="λ, from 1/D to 1", ylabel="cosine to the true gradient", ylim=(0, None),
        title="(c) fixed and optimal λ",
    )  # fmt: skip
    axes.margins(y=0.15)
    axes.legend(loc="best")


def sentence(numbers: Numbers) -> str:
    """λ* beside the best fixed λ, RGF and the transfer gradient."""
    fixed, star, lead = fixed_band(numbers), star_band(numbers), lead_band(numbers)
    best = int(np.argmax(fixed.mean))
    iterates = sum(map(len, numbers["star"]))
    return (
        f"over {iterates} iterates of {len(numbers['star'])} images λ* reaches cosine {star.mean[0]:.4f}; the best "
        f"fixed λ, {numbers['lambdas'][best]:.2g}, {fixed.mean[best]:.4f} (λ* ahead by {lead.mean[best]:+.4f}, 95 % "
        f"{lead.low[best]:+.4f} to {lead.high[best]:+.4f}); λ = 1/D, RGF, {fixed.mean[0]:.4f}; λ = 1, the transfer "
        f"gradient, {fixed.mean[-1]:.4f}"
    )


FIGURE1C = Panel(
    "figure1c", "cosine of estimates with fixed λ and with λ*", lambda numbers: (3.5, 2.7), compute, draw, sentence
)
