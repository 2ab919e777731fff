"""What a defence does to accuracy, on clean images and on white-box noise that was made on another net."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.core.detection import Memory
from dowse.core.target import as_target


class CraftedNoise(NamedTuple):
    """Two kinds of noise for each of n images, (n, C, H, W) each: of one step, and of several."""

    fgsm: Tensor
    mi_fgsm: Tensor


def craft(net: nn.Module, x: Tensor, eps: float, *, steps: int = 5) -> CraftedNoise:
    """Noise that raises the cross-entropy of the net's own label, each pixel within ±eps, x + noise in [0, 1].

    The fast gradient sign method (Goodfellow et al. 2015) and the momentum iterative one (Dong et al. 2018) with decay
    1, which transfers well; they share the first gradient. No label is needed, so none can leak into the noise.

    Args:
        net: From pixels to logits.
        x: Clean images, (n, C, H, W), all in one batch.
        eps: The largest noise.
        steps: Of the iterative method.
    """
    labels: Tensor | None = None
    noise, momentum, fgsm = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    for step in range(steps):
        with torch.enable_grad():
            point = (x + noise).requires_grad_()
            logits = net(point)
            labels = logits.detach().argmax(1) if labels is None else labels
            (gradient,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), point)
        if step == 0:
            fgsm = _kept(x, eps * gradient.sign())
        momentum += gradient / gradient.abs().mean((1, 2, 3), keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        noise = _kept(x, (noise + eps / steps * momentum.sign()).clamp(-eps, eps))
    return CraftedNoise(fgsm, noise)


def _kept(x: Tensor, noise: Tensor) -> Tensor:
    """Noise that leaves x + noise an image."""
    return (x + noise).clamp(0, 1) - x


BATCH = 16


class Accuracy(NamedTuple):
    """The share of images put into their class, by the classifier alone and behind the defence.

    Attributes:
        noise: "clean", "FGSM" or "MI-FGSM".
        eps: The noise's size per pixel.
        undefended: The classifier's accuracy.
        defended: Its accuracy behind the defence, where an image that is refused is not right.
    """

    noise: str
    eps: float
    undefended: float
    defended: float


@torch.no_grad()
def correct(net: nn.Module, x: Tensor, labels: Tensor, memory: Memory | None = None) -> int:
    """How many of one batch of images, (n, C, H, W), a net puts into their classes, (n,), and a memory lets pass."""
    right = net(x).argmax(1) == labels
    return int((right if memory is None else right & ~memory.show(x).refused).sum())


def account_of(defended: nn.Module) -> Memory | None:
    """The memory of one account that goes on asking, where a defence remembers queries."""
    detector = as_target(defended).detector
    return None if detector is None else Memory(replace(detector, then="refuse"))


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

    With no sizes of noise it is the defence's cost in clean accuracy. A defence that remembers queries is shown all
    images of one kind by one account, in their order: what it refuses of clean ones are its false alarms.

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
    right, accounts = torch.zeros(len(kinds), 2, dtype=torch.int64), [account_of(defended) for _ in kinds]
    for start in range(0, len(images), BATCH):
        x, y = images[start : start + BATCH], labels[start : start + BATCH]
        seen = [x, *(x + noise for size in eps for noise in craft(source, x, size, steps=steps))]
        right += torch.tensor(
            [
                [correct(net, points, y), correct(defended, points, y, account)]
                for points, account in zip(seen, accounts, strict=True)
            ]
        )
        if on_progress is not None:
            on_progress(start + len(x), len(images))
    shares = (right.double() / len(images)).tolist()
    return [Accuracy(name, size, *share) for (name, size), share in zip(kinds, shares, strict=True)]
