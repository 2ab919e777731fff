"""What the benchmarks attack: the demo's classifier at 224×224, a CIFAR ResNet-20 at 32×32, a free prior."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dowse import models
from dowse.core.flow import Look, PriorAt, Pull, Seen, Weighing
from dowse.core.prior import Prior
from dowse.machine.cpu import channels_last
from dowse.maths.losses import Objective
from dowse.surrogates.faster import faster, open_surrogate
from dowse.surrogates.prior import SurrogatePrior


class CountingTarget:
    """Counts the rows that go through a network."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.rows = net, 0

    def __call__(self, points: Tensor) -> Tensor:
        self.rows += len(points)
        scores: Tensor = self.net(points)
        return scores


class RandomPrior:
    """A transfer gradient that costs nearly nothing and says nothing, so that P-RGF always samples q directions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        start = time.process_time()
        gradient = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
        self.seconds += time.process_time() - start
        return gradient


class CountingPrior(Prior):
    """Counts the gradients that a surrogate is asked for; the copies that fill its passes up are none."""

    def __init__(self, net: nn.Module) -> None:
        self.inner, self.rows = SurrogatePrior(net, Objective("ce", "logits", False)), 0

    def pass_size(self, question: PriorAt | Look | Pull) -> int:
        return self.inner.pass_size(question)

    def gradient(self, x: Tensor, labels: Tensor, turns: Tensor | None = None) -> Tensor:
        self.rows += len(x)
        return self.inner.gradient(x, labels, turns)

    def see(
        self, x: Tensor, turns: Tensor, weights: Sequence[Weighing] | None = None, *, soft: bool = False
    ) -> list[Seen]:
        self.rows += len(x) * (weights is not None)
        return self.inner.see(x, turns, weights, soft=soft)


def imagenet_surrogate() -> nn.Module:
    """The demo's surrogate, EfficientNet-Lite0 at 3×224×224, as a run opens it."""
    return open_surrogate("dowse:imagenet_efficientnet_lite0")


def cifar_surrogate() -> nn.Module:
    """A ResNet-32 at 3×32×32 with random weights."""
    torch.manual_seed(1)
    return faster(channels_last(models.spec("cifar10_resnet32").build().eval().requires_grad_(False)), (3, 32, 32))


def imagenet_target() -> nn.Module:
    """The demo's target, MobileNetV2 at 3×224×224."""
    return models.load("imagenet_mobilenetv2")


def cifar_target() -> nn.Module:
    """A ResNet-20 at 3×32×32; its speed does not depend on its weights, so it has random ones."""
    torch.manual_seed(0)
    return channels_last(models.spec("cifar10_resnet20").build().eval().requires_grad_(False))


def noise_images(n: int, side: int) -> Tensor:
    """n images of noise, (n, 3, side, side)."""
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(1))
