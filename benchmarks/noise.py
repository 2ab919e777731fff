"""What randomization's noise does to α̂: true cosine and norm of the mean gradient against their estimates.

`python -m benchmarks.noise` prints medians over the images that the bare network knows.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from dowse import models
from dowse.core.target import as_target
from dowse.defences import Randomization
from dowse.images.sources import open_images
from dowse.machine.cpu import ensure_fast_malloc
from dowse.machine.packages import shared_folder
from dowse.maths import theory
from dowse.maths.losses import Objective
from dowse.maths.sampling import sphere, unit
from dowse.surrogates.prior import SurrogatePrior
from dowse.surrogates.surrogate import Surrogate

IMAGES, DRAWS, SAMPLES = 40, 32, 10
SIGMAS = (1e-3, 1e-2)
OBJECTIVE = Objective("ce", "logits", targeted=False)


def main() -> None:
    """Print a line a target and σ."""
    ensure_fast_malloc()
    torch.set_num_threads(1)
    net, surrogate = models.load("imagenet_mobilenetv2"), models.load("imagenet_efficientnet_lite0")
    images, labels = known(net)
    priors = [SurrogatePrior(Surrogate(surrogate, smooth=side), OBJECTIVE) for side in (None, 15)]
    print(f"Medians of {len(images)} images, {DRAWS} draws.\n")
    print("| target | cosine, plain | smoothed | sd of f | σ | rise of f along v | ‖∇f‖ too large by |")
    print("|---|---|---|---|---|---|---|")
    for name, target in {"MobileNetV2": net, "randomization": Randomization(net)}.items():
        found = torch.tensor([[*measure(target, priors, *image)] for image in zip(images, labels, strict=True)])
        plain, smooth, spread, *more = found.median(0).values.tolist()
        for σ, rise, factor in zip(SIGMAS, more[::2], more[1::2], strict=True):
            print(f"| {name} | {plain:.3f} | {smooth:.3f} | {spread:.2g} | {σ:g} | {rise:.2g} | {factor:.3g} |")


def known(net: nn.Module) -> tuple[Tensor, Tensor]:
    """The first images that the bare network gets right, (n, 3, 224, 224), and their labels, (n,)."""
    sample = open_images(shared_folder() / "data" / "nips17_dev500").load(IMAGES)
    with torch.inference_mode():
        right = net(sample.images).argmax(1) == sample.labels
    return sample.images[right], sample.labels[right]


def measure(target: nn.Module, priors: Sequence[SurrogatePrior], x: Tensor, label: Tensor) -> Iterator[float]:
    """Of one image, (C, H, W): cosines of both priors, spread of f; for each σ f's rise along v, the norm's factor."""
    draws = DRAWS if as_target(target).takes_row_seeds else 2
    rows, labels = x.expand(draws, *x.shape), label.expand(draws)
    gradients = SurrogatePrior(target, OBJECTIVE).gradient(rows, labels, torch.arange(draws)).double()
    halves = gradients.view(2, -1, *x.shape).mean(1)
    norm = math.sqrt(max(1e-30, float((halves[0] * halves[1]).sum())))  # unbiased of the mean gradient's square
    directions = (unit(prior.gradient(x[None], label[None])[0]) for prior in priors)
    along = [float((gradients.mean(0) * v).sum()) for v in directions]
    yield from (slope / norm for slope in along)  # Eq. (13) with the true gradient
    yield float(values(target, rows, labels, 1).std())
    for sigma in SIGMAS:
        σ = sigma * math.sqrt(x.numel())
        yield σ * abs(along[1])
        probes = sphere(SAMPLES, x, torch.Generator().manual_seed(0))
        points = torch.cat([x[None], (x + σ * probes).clamp(0, 1)])
        f = values(target, points, label.expand(len(points)), 2)
        yield theory.gradient_norm((f[1:] - f[0]) / σ, x.numel()) / norm  # Eq. (16)


def values(target: nn.Module, points: Tensor, labels: Tensor, seed: int) -> Tensor:
    """f of each point, (n, C, H, W) -> (n,), each with a draw of its own."""
    torch.manual_seed(seed)
    with torch.inference_mode():
        return OBJECTIVE.value(target(points).double(), labels)


if __name__ == "__main__":
    main()
