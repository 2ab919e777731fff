"""SqueezeNet 1.0 (Iandola et al. 2016) in its Caffe geometry: pooling rounds up, the last layer is padded."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.models.layers import Normalize, global_average

# squeeze and expand channels of the eight Fire modules; a pooling follows the third and the seventh
FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
POOLED_AFTER = (2, 6)


class SqueezeNet10(nn.Module):
    """RGB pixels in [0, 1] (n, 3, 224, 224) to logits (n, classes), none of them negative."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.norm = Normalize((104.0, 117.0, 123.0), (1.0, 1.0, 1.0), scale=255.0, bgr=True)
        self.conv1 = nn.Conv2d(3, 96, 7, 2)
        self.fires = nn.ModuleList()
        inputs = 96
        for squeeze, expand in FIRES:
            self.fires.append(_Fire(inputs, squeeze, expand))
            inputs = 2 * expand
        self.conv10 = nn.Conv2d(inputs, classes, 1, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, classes)."""
        x = _pool(F.relu(self.conv1(self.norm(x)), inplace=True))
        for index, fire in enumerate(self.fires):
            x = fire(x)
            if index in POOLED_AFTER:
                x = _pool(x)
        return global_average(F.relu(self.conv10(x), inplace=True))


class _Fire(nn.Module):
    """Squeeze to few channels, then expand by 1×1 and 3×3 convolutions side by side."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.e1 = nn.Conv2d(squeeze, expand, 1)
        self.e3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x), inplace=True)
        return F.relu(torch.cat((self.e1(x), self.e3(x)), 1), inplace=True)


def _pool(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, ceil_mode=True)
