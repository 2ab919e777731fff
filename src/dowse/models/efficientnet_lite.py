"""EfficientNet-Lite 0 to 2: EfficientNet (Tan & Le 2019) without squeeze-excitation and with ReLU6."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from dowse.models.layers import Normalize, SameConv2d, global_average

# variant: width factor, depth factor
VARIANTS = {0: (1.0, 1.0), 1: (1.0, 1.1), 2: (1.1, 1.2)}

# blocks, kernel, stride of the first block, expansion, channels, all before scaling
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class EfficientNetLite(nn.Module):
    """RGB pixels in [0, 1] (n, 3, H, W) to logits (n, classes); H = 224, 240, 260 for variants 0, 1, 2."""

    def __init__(self, variant: int = 0, classes: int = 1000) -> None:
        super().__init__()
        width, depth = VARIANTS[variant]
        self.norm = Normalize((127.0,) * 3, (128.0,) * 3, scale=255.0)
        self.conv_stem = SameConv2d(3, 32, 3, 2, bias=False)
        self.bn0 = _batch_norm(32)
        blocks: list[nn.Module] = []
        inputs = 32
        for index, (count, kernel, first_stride, expansion, channels) in enumerate(STAGES):
            outputs = _scaled_channels(channels, width)
            if 0 < index < len(STAGES) - 1:  # the Lite nets keep the depth of the first and the last stage
                count = math.ceil(count * depth)
            for block in range(count):
                stride = first_stride if block == 0 else 1
                blocks.append(_Block(inputs, outputs, kernel, stride, expansion))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = SameConv2d(inputs, 1280, 1, bias=False)
        self.bn1 = _batch_norm(1280)
        self.fc = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, classes)."""
        x = F.relu6(self.bn0(self.conv_stem(self.norm(x))), inplace=True)
        x = F.relu6(self.bn1(self.conv_head(self.blocks(x))), inplace=True)
        logits: Tensor = self.fc(global_average(x))
        return logits


class _Block(nn.Module):
    """An inverted residual: widen by `expansion` (unless it is 1), filter depth-wise, narrow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        self.widens = expansion != 1
        if self.widens:
            self.expand_conv = SameConv2d(inputs, hidden, 1, bias=False)
            self.bn0 = _batch_norm(hidden)
        self.depthwise_conv = SameConv2d(hidden, hidden, kernel, stride, groups=hidden, bias=False)
        self.bn1 = _batch_norm(hidden)
        self.project_conv = SameConv2d(hidden, outputs, 1, bias=False)
        self.bn2 = _batch_norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.bn0(self.expand_conv(x)), inplace=True) if self.widens else x
        y = F.relu6(self.bn1(self.depthwise_conv(y)), inplace=True)
        z: Tensor = self.bn2(self.project_conv(y))
        return x + z if self.residual else z


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


def _scaled_channels(channels: int, width: float) -> int:
    """channels·width rounded to a multiple of 8, never losing more than a tenth."""
    scaled = channels * width
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * scaled else rounded + 8


def rename_parameter(name: str) -> str:
    """A parameter's name in the published weights, such as `_blocks.0._bn1.bias`, to its name here."""
    return name.removeprefix("_").replace("._", ".")
