"""The small network that the real model server and the test both build from one seed."""

import math

import torch
from torch import Tensor, nn

SHAPE = (3, 8, 8)
CLASSES = 5


def make_net(seed: int = 0) -> nn.Module:
    """Points (n, 3, 8, 8) in [0, 1] -> logits (n, 5), float64."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        Centre(), nn.Conv2d(SHAPE[0], 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 8, 3, stride=2), nn.Tanh(),
        nn.Flatten(), nn.Linear(8 * 3 * 3, CLASSES),
    ).double()  # fmt: skip
    for parameter in net.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=2 / math.sqrt(parameter[0].numel()))
    return net.eval().requires_grad_(False)


class Centre(nn.Module):
    """Pixels around zero."""

    def forward(self, x: Tensor) -> Tensor:
        return x - 0.5
