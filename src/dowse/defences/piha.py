"""A perceptual hash of queries in the manner of PIHA (Choi et al. 2023): patterns of hue between blocks."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dowse.core.detection import Detector
from dowse.defences.stateful import Stateful
from dowse.errors import count, fraction

CENTRE, SIDE = (weight / (1 + 2 * math.exp(-0.5)) for weight in (1.0, math.exp(-0.5)))  # a Gaussian of σ = 1 on 3 taps
NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))


@dataclass(frozen=True, kw_only=True)
class HuePatterns(Detector):
    """A query's fingerprint is a code a block: which of its eight neighbours have no less hue than it.

    Attributes:
        threshold: A query is refused of whose codes at most this share differs from an earlier one's.
        block: The side of a block.
    """

    threshold: float = 0.05
    block: int = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(threshold=self.threshold)
        count(block=self.block)

    def fingerprint(self, x: Tensor) -> bytes:
        """The codes of one query, (C, H, W), a byte a block, row by row."""
        h = hue(blurred(x.double()))
        missing = (0, -h.shape[1] % self.block, 0, -h.shape[0] % self.block)
        blocks = F.pad(h, missing).unfold(0, self.block, self.block).unfold(1, self.block, self.block)
        return bytes(patterns(blocks.sum((2, 3))).flatten().tolist())

    def alike(self, one: bytes, other: bytes) -> bool:
        """Whether the normalised Hamming distance of two queries' codes is at most the threshold."""
        return sum(a != b for a, b in zip(one, other, strict=True)) <= self.threshold * len(one)


def blurred(x: Tensor) -> Tensor:
    """An image, (C, H, W), through a Gaussian of 3×3 and σ = 1; at the border it is mirrored."""
    padded = F.pad(x.unsqueeze(0), (1, 1, 1, 1), mode="reflect")[0]
    down = CENTRE * padded[:, 1:-1] + SIDE * (padded[:, :-2] + padded[:, 2:])
    return CENTRE * down[:, :, 1:-1] + SIDE * (down[:, :, :-2] + down[:, :, 2:])


def hue(x: Tensor) -> Tensor:
    """The hue of an image, (C, H, W), in [0, 360), zero where it has none: (H, W); of one channel its values."""
    if len(x) != 3:
        return x.mean(0)
    r, g, b = x
    largest, smallest = x.amax(0), x.amin(0)
    range_ = largest - smallest
    safe = torch.where(range_ > 0, range_, 1.0)
    sector = torch.where(
        largest == r, (g - b) / safe % 6, torch.where(largest == g, (b - r) / safe + 2, (r - g) / safe + 4)
    )
    return torch.where(range_ > 0, 60 * sector, 0.0)


def patterns(features: Tensor) -> Tensor:
    """Local binary patterns of a matrix, (H, W) -> (H, W) in 0 … 255: a bit a neighbour that is no smaller.

    Beyond the border all is zero.
    """
    height, width = features.shape
    padded = F.pad(features, (1, 1, 1, 1))
    code = torch.zeros(height, width, dtype=torch.int64)
    for bit, (down, right) in enumerate(NEIGHBOURS):
        neighbour = padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]
        code |= (neighbour >= features).long() << bit
    return code


class Piha(Stateful):
    """A classifier behind a perceptual hash: a query is refused whose hash is nearly that of an earlier one.

    Taken from the paper, as it is restated in the evaluation of Feng et al. 2023 (OARS): a Gaussian low-pass filter
    (3×3, σ = 1), the hue alone, its sums over blocks of 7×7, their local binary patterns (eight neighbours, radius 1)
    as the hash, the share of codes that differ from the nearest earlier query's, and a threshold of 0.05. Not taken:
    neighbours read on a circle between the blocks (here the eight blocks around are compared themselves), and a block
    of padding where the side is a multiple of the block's. Of an image that has not three channels their mean stands
    for the hue.

    Args:
        net: From points to scores.
        choices: The fields of HuePatterns: account, then, threshold, block.
    """

    prefix = "piha"
    kind_of_detector = HuePatterns
