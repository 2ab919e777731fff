"""What randomization's noise does to α̂: true cosine and norm of the mean gradient against their estimates.

`python -m benchmarks.noise` prints medians over the images that the bare network knows.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from dowse import data, models, theory
from dowse.defences import Randomization
from dowse.losses import Objective
from dowse.priors import Surrogate, SurrogatePrior
from dowse.sampling import sphere, unit
from dowse.shared import shared_folder
from dowse.tuning import ensure_fast_malloc

IMAGES, DRAWS, SAMPLES = 40, 32, 10
SIGMAS = (1e-3, 1e-2)
OBJECTIVE = Objective("ce", "logits", targeted=False)


def main() -> None:
    """Print a line a target and σ."""
    ensure_fast_malloc()
    torch.set_num_threads(1)
    images, labels = known()
    print(f"Medians of {len(images)} images, {DRAWS} draws.\n")
    print("| target | cosine, plain | smoothed | sd of f | σ | rise of f along v | ‖∇f‖ too large by |")
    print("|---|---|---|---|---|---|---|")
    net = models.load("imagenet_mobilenetv2")
    for name, target in {"MobileNetV2": net, "randomization": Randomization(net)}.items():
        found = torch.tensor([[*measure(target, x, label)] for x, label in zip(images, labels, strict=True)])
        plain, smooth, spread, *more = found.median(0).values.tolist()
        for σ, rise, factor in zip(SIGMAS, more[::2], more[1::2], strict=True):
            print(f"| {name} | {plain:.3f} | {smooth:.3f} | {spread:.2g} | {σ:g} | {rise:.2g} | {factor:.3g} |")


def known() -> tuple[Tensor, Tensor]:
    """The first images that the bare network gets right, (n, 3, 224, 224), and their labels, (n,)."""
    sample = data.load_folder(shared_folder() / "data" / "nips17_dev500", limit=IMAGES)
    with torch.inference_mode():
        right = models.load("imagenet_mobilenetv2")(sample.images).argmax(1) == sample.labels
    return sample.images[right], sample.labels[right]


def measure(target: torch.nn.Module, x: Tensor, label: Tensor) -> Iterator[float]:
    """Of one image, (C, H, W): cosines of both priors, spread of f; for each σ f's rise along v, the norm's factor."""
    draws = DRAWS if getattr(target, "takes_row_seeds", False) else 2
    rows, labels = x.expand(draws, *x.shape), label.expand(draws)
    gradients = SurrogatePrior(target, OBJECTIVE).gradient(rows, labels, torch.arange(draws)).double()
    halves = gradients.view(2, -1, *x.shape).mean(1)
    norm = math.sqrt(max(1e-30, float((halves[0] * halves[1]).sum())))  # unbiased of the mean gradient's square
    smooth = Surrogate(models.load("imagenet_efficientnet_lite0"), smooth=15)
    plain, v = (unit(SurrogatePrior(one, OBJECTIVE).gradient(x[None], label[None])[0]) for one in (smooth.net, smooth))
    along = [float((gradients.mean(0) * direction).sum()) for direction in (plain, v)]
    yield from (slope / norm for slope in along)  # Eq. (13) with the true gradient
    yield float(values(target, rows, labels, 1).std())
    for sigma in SIGMAS:
        σ = sigma * math.sqrt(x.numel())
        yield σ * abs(along[1])
        directions = sphere(SAMPLES, x, torch.Generator().manual_seed(0))
        points = torch.cat([x[None], (x + σ * directions).clamp(0, 1)])
        f = values(target, points, label.expand(len(points)), 2)
        yield theory.gradient_norm((f[1:] - f[0]) / σ, x.numel()) / norm  # Eq. (16)


def values(target: torch.nn.Module, points: Tensor, labels: Tensor, seed: int) -> Tensor:
    """f of each point, (n, C, H, W) -> (n,), each with a draw of its own."""
    torch.manual_seed(seed)
    with torch.inference_mode():
        return OBJECTIVE.value(target(points).double(), labels)


if __name__ == "__main__":
    main()
