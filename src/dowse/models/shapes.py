"""Drawn shapes and small classifiers of them, made in a second: what examples and the quick demo attack.

Nothing has to be downloaded, and nothing is stored: images are drawn, and a classifier's last layer is solved for.
"""

import copy
import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NAMES = ("disc", "ring", "square", "triangle", "cross", "stripes")
"""What the labels 0 … 5 mean."""
SIDE = 32
LEARNT_FROM = 1200  # drawings a classifier learns from
LEARNT_SEED = 1_000_003  # of those drawings; no other set of drawings is likely to have it
CONTRAST = 12.0  # the logits' scale: how sure a classifier is


def shapes(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images of shapes, (count, 3, 32, 32) in [0, 1], and what they show, (count,): places in `NAMES`.

    Each has a light and a dark colour, a size, a place and grain of its own.

    >>> x, y = shapes(4)
    >>> x.shape, [NAMES[label] for label in y]
    (torch.Size([4, 3, 32, 32]), ['disc', 'ring', 'square', 'triangle'])
    """
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % len(NAMES)

    def drawn(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=rng)

    axis = torch.arange(SIDE) - (SIDE - 1) / 2
    across, down = axis - drawn(-4, 4, 1), axis - drawn(-4, 4, 1)
    radius = drawn(7, 11, 1, 1)
    inside = torch.stack([_inside(name, across[:, None, :], down[:, :, None], radius) for name in NAMES])
    mask = inside[y, torch.arange(count)][:, None]
    dark, light = drawn(0.1, 0.4, 3, 1, 1), drawn(0.6, 0.9, 3, 1, 1)
    x = torch.where(mask, light, dark) + 0.03 * torch.randn(count, 3, SIDE, SIDE, generator=rng)
    return x.clamp_(0, 1), y


def _inside(name: str, u: Tensor, v: Tensor, r: Tensor) -> Tensor:
    """Where a shape of radius r, (n, 1, 1), is, seen from its centre: u across, v down -> (n, H, W)."""
    far = (u.square() + v.square()).sqrt()
    box = torch.maximum(u.abs(), v.abs())
    return {
        "disc": far < r,
        "ring": (far < r) & (far > 0.55 * r),
        "square": box < 0.85 * r,
        "triangle": (v < 0.7 * r) & (v > 2 * u.abs() - r),
        "cross": (torch.minimum(u.abs(), v.abs()) < 0.28 * r) & (box < r),
        "stripes": (box < r) & ((u / r * 5).floor() % 2 == 0),
    }[name]


def classifier(seed: int = 0) -> nn.Module:
    """A classifier of shapes, frozen and in eval mode: pixels (n, 3, 32, 32) in [0, 1] -> logits (n, 6).

    Two layers of random filters, drawn by `seed`, and a last layer that is the ridge regression of what 1,200 drawings
    show. Two seeds make two networks that agree on most shapes and err apart: a target and a surrogate.
    """
    return copy.deepcopy(_learnt(seed))


@functools.lru_cache(maxsize=4)
def _learnt(seed: int) -> nn.Module:
    """A classifier, which takes a second, kept for whoever asks again."""
    rng = torch.Generator().manual_seed(seed)
    features = nn.Sequential(
        _random_filters(3, 24, 5, 2, rng), nn.ReLU(), _random_filters(24, 64, 3, 1, rng), nn.ReLU(),
        nn.AvgPool2d(4), nn.Flatten(),
    )  # fmt: skip
    x, y = shapes(LEARNT_FROM, LEARNT_SEED)
    with torch.no_grad():
        φ = features(x - 0.5).double()
        centre = φ.mean(0)
        kernel = (φ - centre).T @ (φ - centre)
        wanted = F.one_hot(y, len(NAMES)).double() - 1 / len(NAMES)
        ridge = 1e-3 * kernel.diagonal().mean()
        weight = torch.linalg.solve(kernel + ridge * torch.eye(len(kernel)), (φ - centre).T @ wanted)
        last = nn.Linear(len(kernel), len(NAMES))
        last.weight.copy_(CONTRAST * weight.T)
        last.bias.copy_(-CONTRAST * centre @ weight)
    return nn.Sequential(_Centred(), features, last).eval().requires_grad_(False)


class _Centred(nn.Module):
    """Pixels around zero."""

    def forward(self, x: Tensor) -> Tensor:
        return x - 0.5


def _random_filters(inputs: int, outputs: int, side: int, stride: int, rng: torch.Generator) -> nn.Conv2d:
    """A convolution with random filters that see no constant."""
    layer = nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False, padding_mode="replicate")
    filters = torch.randn(outputs, inputs, side, side, generator=rng)
    filters -= filters.mean((1, 2, 3), keepdim=True)
    with torch.no_grad():
        layer.weight.copy_(filters / math.sqrt(inputs * side * side))
    return layer
