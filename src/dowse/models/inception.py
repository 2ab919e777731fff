"""Inception-v3 (Szegedy et al. 2015, "Rethinking the Inception architecture") with the batch norms folded in.

Figures named below are the paper's. As in the network that was released with it, the stem's fourth convolution is 1×1
and the last modules pool by averages.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.models.layers import Normalize, global_average

ROW, COLUMN = (1, 7), (7, 1)  # a 7×7 filter in two parts (Figure 6)


class InceptionV3(nn.Module):
    """RGB pixels in [0, 1] (n, 3, 299, 299) to logits (n, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.norm = Normalize((0.5,) * 3, (0.5,) * 3)
        self.stem1 = nn.Sequential(
            _Conv(3, 32, 3, stride=2, padded=False), _Conv(32, 32, 3, padded=False), _Conv(32, 64, 3)
        )
        self.stem2 = nn.Sequential(_Conv(64, 80, 1), _Conv(80, 192, 3, padded=False))
        self.blocks = nn.Sequential(
            _module_35(192, pooled=32),
            _module_35(256, pooled=64),
            _module_35(288, pooled=64),
            _shrink_35(288),
            *(_module_17(768, width) for width in (128, 160, 160, 192)),
            _shrink_17(768),
            _module_8(1280),
            _module_8(2048),
        )
        self.fc = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, classes)."""
        x = F.max_pool2d(self.stem1(self.norm(x)), 3, 2)
        x = F.max_pool2d(self.stem2(x), 3, 2)
        logits: Tensor = self.fc(global_average(self.blocks(x)))
        return logits


class _Conv(nn.Conv2d):
    """A convolution and its ReLU; `padded` keeps the sides of the image, divided by the stride."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int | tuple[int, int], *, stride: int = 1, padded: bool = True
    ) -> None:
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (height // 2, width // 2) if padded else 0
        super().__init__(inputs, outputs, (height, width), stride, padding)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


class _Branches(nn.Module):
    """Branches side by side; the last of them sees the average of each pixel's neighbours inside the image."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        *plain, pooled = self.branches
        averaged = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        return torch.cat([*(branch(x) for branch in plain), pooled(averaged)], 1)


class _Shrink(nn.Module):
    """Branches that halve the grid beside a pooling that does (Figure 10)."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([*(branch(x) for branch in self.branches), F.max_pool2d(x, 3, 2)], 1)


class _Fork(nn.Module):
    """A trunk, then a 1×3 and a 3×1 convolution of it side by side (Figure 7)."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk
        self.row = _Conv(384, 384, (1, 3))
        self.column = _Conv(384, 384, (3, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.trunk(x)
        return torch.cat((self.row(x), self.column(x)), 1)


def _module_35(inputs: int, pooled: int) -> _Branches:
    """The module of the 35×35 grid (Figure 5, its 5×5 filter left whole)."""
    return _Branches(
        _Conv(inputs, 64, 1),
        nn.Sequential(_Conv(inputs, 48, 1), _Conv(48, 64, 5)),
        nn.Sequential(_Conv(inputs, 64, 1), _Conv(64, 96, 3), _Conv(96, 96, 3)),
        _Conv(inputs, pooled, 1),
    )


def _shrink_35(inputs: int) -> _Shrink:
    """From 35×35 to 17×17."""
    return _Shrink(
        _Conv(inputs, 384, 3, stride=2, padded=False),
        nn.Sequential(_Conv(inputs, 64, 1), _Conv(64, 96, 3), _Conv(96, 96, 3, stride=2, padded=False)),
    )


def _module_17(inputs: int, width: int) -> _Branches:
    """The module of the 17×17 grid (Figure 6, n = 7)."""
    once = (_Conv(width, width, ROW), _Conv(width, 192, COLUMN))
    twice = (
        *(_Conv(width, width, kernel) for kernel in (COLUMN, ROW, COLUMN)),
        _Conv(width, 192, ROW),
    )
    return _Branches(
        _Conv(inputs, 192, 1),
        nn.Sequential(_Conv(inputs, width, 1), *once),
        nn.Sequential(_Conv(inputs, width, 1), *twice),
        _Conv(inputs, 192, 1),
    )


def _shrink_17(inputs: int) -> _Shrink:
    """From 17×17 to 8×8."""
    last = _Conv(192, 192, 3, stride=2, padded=False)
    return _Shrink(
        nn.Sequential(_Conv(inputs, 192, 1), _Conv(192, 320, 3, stride=2, padded=False)),
        nn.Sequential(_Conv(inputs, 192, 1), _Conv(192, 192, ROW), _Conv(192, 192, COLUMN), last),
    )


def _module_8(inputs: int) -> _Branches:
    """The module of the 8×8 grid (Figure 7)."""
    return _Branches(
        _Conv(inputs, 320, 1),
        _Fork(_Conv(inputs, 384, 1)),
        _Fork(nn.Sequential(_Conv(inputs, 448, 1), _Conv(448, 384, 3))),
        _Conv(inputs, 192, 1),
    )


RENAMED = {"mixed.": "blocks.", ".conv.": ".", ".b.": ".branches.", ".h.": ".row.", ".v.": ".column."}


def rename_parameter(name: str) -> str:
    """A parameter's name in the shared weights, such as `mixed.9.b.1.h.conv.bias`, to its name here."""
    for theirs, ours in RENAMED.items():
        name = name.replace(theirs, ours)
    return name
