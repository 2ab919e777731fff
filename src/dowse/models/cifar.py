"""Classifiers for 32×32 images: the CIFAR ResNets of He et al. 2015, and two small robust nets."""

import torch.nn.functional as F
from torch import Tensor, nn

from dowse.models.layers import IMAGENET_MEAN, IMAGENET_STD, Normalize, conv_bn, global_average


class CifarResNet(nn.Module):
    """RGB pixels in [0, 1] (n, 3, 32, 32) to logits (n, classes); depth 6k + 2 (their Sec. 4.2)."""

    def __init__(self, depth: int, classes: int = 10) -> None:
        super().__init__()
        count = (depth - 2) // 6
        self.norm = Normalize(IMAGENET_MEAN, IMAGENET_STD)
        self.conv1, self.bn1 = conv_bn(3, 16, 3)
        self.layer1 = _stage(16, 16, count)
        self.layer2 = _stage(16, 32, count)
        self.layer3 = _stage(32, 64, count)
        self.linear = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, classes)."""
        x = F.relu(self.bn1(self.conv1(self.norm(x))), inplace=True)
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.linear(global_average(x))
        return logits


class _Block(nn.Module):
    """Two 3×3 convolutions beside a bare shortcut: every second pixel, zeros for new channels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.shrinks = inputs != outputs
        self.new_channels = outputs - inputs
        self.conv1, self.bn1 = conv_bn(inputs, outputs, 3, 2 if self.shrinks else 1)
        self.conv2, self.bn2 = conv_bn(outputs, outputs, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        if self.shrinks:
            half = self.new_channels // 2
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, half))
        return F.relu(y + x, inplace=True)


def _stage(inputs: int, outputs: int, count: int) -> nn.Sequential:
    return nn.Sequential(_Block(inputs, outputs), *(_Block(outputs, outputs) for _ in range(count - 1)))


CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)


class AdversarialCnnA4(nn.Sequential):
    """RGB pixels in [0, 1] (n, 3, 32, 32) to logits (n, 10): a plain network, trained adversarially."""

    def __init__(self) -> None:
        super().__init__(
            Normalize(CIFAR_MEAN, CIFAR_STD),
            nn.Conv2d(3, 16, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 8 * 8, 100),
            nn.ReLU(),
            nn.Linear(100, 10),
        )


class AdversarialResNet2b(nn.Module):
    """RGB pixels in [0, 1] (n, 3, 32, 32) to logits (n, 10): the `cifar10_resnet` 2b net of VNN-COMP 2021.

    It was trained adversarially at l∞ 2/255, and its robust accuracy is bounded from below by verification.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = Normalize(CIFAR_MEAN, CIFAR_STD)
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.layer1 = nn.Sequential(_PlainBlock(8, 16, 2), _PlainBlock(16, 16, 1))
        self.linear1 = nn.Linear(16 * 8 * 8, 100)
        self.linear2 = nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, 32, 32) -> (n, 10)."""
        x = self.layer1(F.relu(self.conv1(self.norm(x)), inplace=True))
        logits: Tensor = self.linear2(F.relu(self.linear1(x.flatten(1)), inplace=True))
        return logits


class _PlainBlock(nn.Module):
    """A residual block without batch norms."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(F.relu(self.conv1(x), inplace=True))
        return F.relu(y + self.shortcut(x), inplace=True)
