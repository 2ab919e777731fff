"""White-box adversarial noise in an l∞ ball, to train a denoiser on and to measure what it does against transfer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mi_fgsm(net: nn.Module, x: Tensor, eps: float, *, steps: int = 5, batch_size: int = 16) -> Tensor:
    """Noise that raises the cross-entropy of the net's own label, each pixel within ±eps: (n, C, H, W) -> the same.

    The momentum iterative method of Dong et al. 2018 with decay 1, which transfers well; one step is FGSM
    (Goodfellow et al. 2015). No label is needed, so none can leak into the noise.
    """
    return torch.cat([_mi_fgsm(net, rows, eps, steps) for rows in x.split(batch_size)])


def _mi_fgsm(net: nn.Module, x: Tensor, eps: float, steps: int) -> Tensor:
    with torch.no_grad():
        labels = net(x).argmax(1)
    noise, momentum = torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(steps):
        with torch.enable_grad():
            point = (x + noise).requires_grad_()
            loss = F.cross_entropy(net(point), labels, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, point)
        momentum += gradient / gradient.abs().mean((1, 2, 3), keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
        noise = (noise + eps / steps * momentum.sign()).clamp(-eps, eps)
        noise = (x + noise).clamp(0, 1) - x
    return noise


@torch.no_grad()
def accuracy(net: nn.Module, x: Tensor, labels: Tensor, *, batch_size: int = 16) -> float:
    """The share of images (n, C, H, W) that the net puts into their classes, (n,)."""
    right = [net(rows).argmax(1) == some for rows, some in zip(x.split(batch_size), labels.split(batch_size), strict=True)]
    return float(torch.cat(right).double().mean())
