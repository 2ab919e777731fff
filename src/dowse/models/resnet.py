"""ResNets (He et al. 2015) for large images: ResNet-18 as torchvision has it, ResNet-50 as Caffe had it."""

import torch.nn.functional as F
from torch import Tensor, nn

from dowse.models.layers import IMAGENET_MEAN, IMAGENET_STD, Normalize, conv_bn, global_average


class ResNet18(nn.Module):
    """RGB pixels in [0, 1] to logits (n, classes).

    For images (n, 3, 224, 224), or with `small_images` the CIFAR form for (n, 3, 32, 32): a 3×3 stem without
    pooling, and no normalisation of the pixels.
    """

    def __init__(self, classes: int = 1000, *, small_images: bool = False) -> None:
        super().__init__()
        self.norm: nn.Module = nn.Identity() if small_images else Normalize(IMAGENET_MEAN, IMAGENET_STD)
        kernel, stride = (3, 1) if small_images else (7, 2)
        self.conv1, self.bn1 = conv_bn(3, 64, kernel, stride)
        self.pool: nn.Module = nn.Identity() if small_images else nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(_BasicBlock(64, 64, 1), _BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(_BasicBlock(64, 128, 2), _BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(_BasicBlock(128, 256, 2), _BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(_BasicBlock(256, 512, 2), _BasicBlock(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, classes)."""
        x = self.pool(F.relu(self.bn1(self.conv1(self.norm(x))), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(global_average(x))
        return logits


class _BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_bn(inputs, outputs, 3, stride)
        self.conv2, self.bn2 = conv_bn(outputs, outputs, 3)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(*conv_bn(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.downsample(x), inplace=True)


def rename_cifar_parameter(name: str) -> str:
    """A parameter's name in the published CIFAR-10 ResNet-18 to its name here."""
    return name.replace("shortcut", "downsample").replace("linear", "fc")


class ResNet50(nn.Module):
    """RGB pixels in [0, 1] (n, 3, 224, 224) to logits (n, classes).

    The original Caffe form: BGR inside, the stride on a block's first 1×1 convolution, and the batch norms
    folded into the convolutions' weights and biases.
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.norm = Normalize((103.939, 116.779, 123.68), (1.0, 1.0, 1.0), scale=255.0, bgr=True)
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3)
        self.stages = nn.Sequential(
            _bottlenecks(64, 64, count=3, stride=1),
            _bottlenecks(256, 128, count=4, stride=2),
            _bottlenecks(512, 256, count=6, stride=2),
            _bottlenecks(1024, 512, count=3, stride=2),
        )
        self.fc = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, classes)."""
        x = F.relu(self.conv1(self.norm(x)), inplace=True)
        x = self.stages(F.max_pool2d(x, 3, 2, 1))
        logits: Tensor = self.fc(global_average(x))
        return logits


class _Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 convolutions beside a shortcut; `project` puts a 1×1 convolution into the shortcut."""

    def __init__(self, inputs: int, width: int, stride: int, *, project: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, stride)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        self.conv3 = nn.Conv2d(width, 4 * width, 1)
        self.proj: nn.Module = nn.Conv2d(inputs, 4 * width, 1, stride) if project else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.conv1(x), inplace=True)
        y = self.conv3(F.relu(self.conv2(y), inplace=True))
        return F.relu(y + self.proj(x), inplace=True)


def _bottlenecks(inputs: int, width: int, *, count: int, stride: int) -> nn.Sequential:
    first = _Bottleneck(inputs, width, stride, project=True)
    return nn.Sequential(first, *(_Bottleneck(4 * width, width, 1, project=False) for _ in range(count - 1)))
