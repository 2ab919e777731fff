"""Figure 1b: the error of the gradient norm's estimate, Eq. (16), against the number S of its queries."""

import math

import numpy as np
import torch
from torch import Tensor

from dowse.api import attack
from dowse.core.flow import Flow
from dowse.core.seeds import stream
from dowse.errors import InputError
from dowse.estimators import RGF
from dowse.figures import style
from dowse.figures.attack_path import true_gradients
from dowse.figures.panel import Laboratory, Numbers, Panel
from dowse.maths.geometry import Ball
from dowse.maths.sampling import sphere

AT_ONCE = 50  # probes that are in memory together
SHUFFLES = 10  # the slopes of an image are dealt into sets of S so many times


class Slopes:
    """A conversation that measures slopes of f along directions uniform on the sphere, Eq. (13).

    Args:
        n: How many.
    """

    name = "slopes"

    def __init__(self, n: int) -> None:
        self.n = n

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Slopes at x, (*s) -> (n,) float64, with the probes of the RGF family."""
        probing = RGF()
        state, slopes = probing.init(x), torch.zeros(0, dtype=torch.float64)
        while (left := self.n - len(slopes)) > 0:
            rows = min(left, AT_ONCE)
            probes, state = yield from probing.probe(state, x, f, lambda: sphere(rows, x, rng))  # noqa: B023
            slopes = torch.cat([slopes, probes.slope])
        return slopes


def errors(slopes: Tensor, norm: float, D: int, samples: int, rng: torch.Generator) -> list[float]:
    """The normalised root mean square error of Eq. (16) for S = 1, …, samples, from many slopes, (n,), of one image."""
    squares = np.zeros(samples)
    for _ in range(SHUFFLES):
        dealt = slopes[torch.randperm(len(slopes), generator=rng)]
        for S in range(1, samples + 1):
            sets = dealt[: len(dealt) // S * S].view(-1, S)
            estimates = (D * sets.square().mean(1)).sqrt()  # Eq. (16), as theory.gradient_norm, for many sets at once
            squares[S - 1] += float((estimates / norm - 1).square().mean())
    found: list[float] = np.sqrt(squares / SHUFFLES).tolist()
    return found


def expected(S: int) -> float:
    """The error that Eq. (16) has of S slopes in a space of many dimensions: it is √(χ²_S/S), about 1/√(2S)."""
    mean = math.sqrt(2 / S) * math.exp(math.lgamma((S + 1) / 2) - math.lgamma(S / 2))
    return math.sqrt(max(0.0, 2 - 2 * mean))


def compute(lab: Laboratory) -> Numbers:
    """The error for each image and each S, at the unchanged image."""
    scene, setting = lab.scene, lab.setting
    n, per_image = len(scene.images), []
    norms = true_gradients(scene.target, scene.images, scene.labels).flatten(1).double().norm(dim=1)
    for i in range(n):
        lab.tell("norm estimates", i, n)
        one = slice(i, i + 1)
        outcome = attack(
            scene.asked, scene.images[one], scene.labels[one], method=Slopes(setting.slopes), seed=setting.seed,
            budget=max(setting.budget, 100 * setting.slopes), accept="never",
        ).outcomes[0]  # fmt: skip
        if outcome.value is None:
            raise InputError(f"{scene.names[i]} gave no slopes: {outcome.end.sentence}")
        rng = stream(setting.seed, scene.names[i], "figure1b")
        per_image.append(errors(outcome.value, float(norms[i]), scene.images[0].numel(), setting.samples, rng))
    lab.tell("norm estimates", n, n)
    return {"samples": list(range(1, setting.samples + 1)), "errors": per_image, "norms": norms.tolist()}


def draw(figure: style.AnyFigure, numbers: Numbers) -> None:
    """Error against S: all images together, the spread of the images, and the theory."""
    axes = figure.subplots()
    S, per_image = numbers["samples"], np.array(numbers["errors"])
    low, high = np.quantile(per_image, [0.1, 0.9], axis=0)
    axes.fill_between(S, low, high, color=style.BLUE, alpha=0.18, linewidth=0, label="80 % of the images")
    axes.plot(S, _together(per_image), color=style.BLUE, label=f"all {len(per_image)} images")
    axes.plot(S, [1 / math.sqrt(2 * s) for s in S], color=style.BLACK, linewidth=1, linestyle="--", label="1/√(2S)")
    axes.set(
        xlabel="queries S", ylabel="relative error of ‖∇f‖", xlim=(0, S[-1]), ylim=(0, None), title="(b) gradient norm"
    )
    if len(S) >= 10:
        axes.axvline(10, color=style.QUIET, linewidth=0.7, linestyle=":")
        axes.annotate("S = 10", (10, 0), (3, 4), textcoords="offset points", color=style.QUIET, fontsize=7.5)
    axes.legend(loc="upper right")


def _together(per_image: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.sqrt((per_image**2).mean(0))
    return found


def sentence(numbers: Numbers) -> str:
    """The error at S = 10, measured and by theory."""
    S = min(10, len(numbers["samples"]))
    error = _together(np.array(numbers["errors"]))[S - 1]
    return f"at S = {S} the norm's relative error is {error:.3f}; theory says {expected(S):.3f}, 1/√(2S) = " + (
        f"{1 / math.sqrt(2 * S):.3f}"
    )


FIGURE1B = Panel(
    "figure1b", "error of the norm estimate against S", lambda numbers: (3.5, 2.7), compute, draw, sentence
)
