"""White-box adversarial noise in an l∞ ball, to train a denoiser on and to measure what it does against transfer."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Noise(NamedTuple):
    """Two kinds of noise for each of n images, (n, C, H, W) each: of one step, and of several."""

    fgsm: Tensor
    mi_fgsm: Tensor


def craft(net: nn.Module, x: Tensor, eps: float, *, steps: int = 5) -> Noise:
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
    return Noise(fgsm, noise)


def _kept(x: Tensor, noise: Tensor) -> Tensor:
    """Noise that leaves x + noise an image."""
    return (x + noise).clamp(0, 1) - x
