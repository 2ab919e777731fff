"""MobileNetV2 (Sandler et al. 2018), with the parameter names of the torchvision weights."""

from torch import Tensor, nn

from dowse.models.layers import IMAGENET_MEAN, IMAGENET_STD, Normalize, global_average

# expansion, channels, blocks, stride of the first block (their Table 2)
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class MobileNetV2(nn.Module):
    """RGB pixels in [0, 1] (n, 3, 224, 224) to logits (n, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.norm = Normalize(IMAGENET_MEAN, IMAGENET_STD)
        layers: list[nn.Module] = [_conv_bn_relu6(3, 32, kernel=3, stride=2)]
        inputs = 32
        for expansion, channels, blocks, first_stride in STAGES:
            for block in range(blocks):
                stride = first_stride if block == 0 else 1
                layers.append(_InvertedResidual(inputs, channels, stride, expansion))
                inputs = channels
        layers.append(_conv_bn_relu6(inputs, 1280, kernel=1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, H, W) -> (n, classes)."""
        logits: Tensor = self.classifier(global_average(self.features(self.norm(x))))
        return logits


class _InvertedResidual(nn.Module):
    """Widen by `expansion`, filter each channel by itself, narrow again without a non-linearity."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        widen = [_conv_bn_relu6(inputs, hidden, kernel=1)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *widen,
            _conv_bn_relu6(hidden, hidden, kernel=3, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return x + y if self.residual else y


def _conv_bn_relu6(inputs: int, outputs: int, *, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )
