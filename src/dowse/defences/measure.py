"""What a denoiser does to accuracy: on clean images, and on adversarial ones that were made on another net."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dowse.defences.crafting import craft

BATCH = 16


class Accuracy(NamedTuple):
    """The share of images put into their class, by the classifier alone and behind the defence.

    Attributes:
        noise: "clean", "FGSM" or "MI-FGSM".
        eps: The noise's size per pixel.
        undefended: The classifier's accuracy.
        defended: Its accuracy behind the defence.
    """

    noise: str
    eps: float
    undefended: float
    defended: float


@torch.no_grad()
def correct(net: nn.Module, x: Tensor, labels: Tensor) -> int:
    """How many of one batch of images, (n, C, H, W), a net puts into their classes, (n,)."""
    return int((net(x).argmax(1) == labels).sum())


def measure_defence(
    net: nn.Module,
    defended: nn.Module,
    source: nn.Module,
    images: Tensor,
    labels: Tensor,
    eps: Sequence[float],
    *,
    steps: int = 5,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Accuracy]:
    """Accuracy with and without a defence on clean images and on noise transferred from `source`.

    Args:
        net: The classifier.
        defended: The same behind its defence.
        source: The net on which the noise is made, unused in training.
        images: (n, 3, H, W).
        labels: (n,).
        eps: Sizes of the noise, per pixel.
        steps: Of MI-FGSM; FGSM is measured too.
        on_progress: Called with (images done, all of them).
    """
    kinds = [("clean", 0.0), *((name, size) for size in eps for name in ("FGSM", "MI-FGSM"))]
    right = torch.zeros(len(kinds), 2, dtype=torch.int64)
    for start in range(0, len(images), BATCH):
        x, y = images[start : start + BATCH], labels[start : start + BATCH]
        seen = [x, *(x + noise for size in eps for noise in craft(source, x, size, steps=steps))]
        right += torch.tensor([[correct(one, points, y) for one in (net, defended)] for points in seen])
        if on_progress is not None:
            on_progress(start + len(x), len(images))
    shares = (right.double() / len(images)).tolist()
    return [Accuracy(name, size, *share) for (name, size), share in zip(kinds, shares, strict=True)]
