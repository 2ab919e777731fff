"""The layers that several classifiers share: pixel normalisation, TensorFlow padding, conv + batch norm."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Normalize(nn.Module):
    """RGB pixels in [0, 1] to what a network was trained on: (scale·x − mean) / std, per channel.

    With `bgr` the channels are reversed first, and mean and std are in that order. The constants are
    buffers outside the state dict, so that a weights file holds nothing but weights.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float], *, scale: float = 1.0, bgr: bool = False) -> None:
        super().__init__()
        self.scale = scale
        self.bgr = bgr
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, 3, H, W)."""
        if self.bgr:
            x = x.flip(1)
        if self.scale != 1.0:
            x = self.scale * x
        return (x - self.mean) / self.std


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's 'SAME' padding: an odd pixel of padding goes right and below."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, H, W) -> (n, c', ⌈H/stride⌉, ⌈W/stride⌉)."""
        (above, below), (left, right) = self.margins(x)
        if (above, left) == (below, right):
            return F.conv2d(x, self.weight, self.bias, self.stride, (above, left), groups=self.groups)
        x = F.pad(x, (left, right, above, below))
        return F.conv2d(x, self.weight, self.bias, self.stride, groups=self.groups)

    def margins(self, x: Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
        """Zeros above and below, left and right of images x, (n, c, H, W)."""
        height, width = (
            _same_padding(size, kernel, stride)
            for size, kernel, stride in zip(x.shape[-2:], self.kernel_size, self.stride, strict=True)
        )
        return height, width


def _same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after an axis of `size` pixels so that ⌈size/stride⌉ windows fit."""
    windows = -(-size // stride)
    total = max((windows - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution with centred padding and no bias, then its batch norm: the two modules in order."""
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
    ]


def global_average(x: Tensor) -> Tensor:
    """The mean over the plane: (n, c, H, W) -> (n, c)."""
    return x.mean((2, 3))
