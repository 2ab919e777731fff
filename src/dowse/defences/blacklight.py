"""Blacklight (Li et al. 2022, USENIX Security): queries whose hashed windows of pixels are mostly those of another."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dowse.core.detection import Detector
from dowse.core.seeds import uniform_of
from dowse.defences.stateful import Stateful
from dowse.errors import InputError, count

SMALL = 3 * 64 * 64  # numbers of an image up to which windows are those for CIFAR-10
WINDOWS = (20, 50)  # the paper's for CIFAR-10 and for ImageNet
LEVELS = 255  # of a pixel: sums with the salt are taken modulo this, as in the released code


@dataclass(frozen=True, kw_only=True)
class WindowHashes(Detector):
    """A query's fingerprint is the largest of the hashes of its windows; two that share more than T are one attack's.

    Attributes:
        threshold: T: a query is refused that shares more hashes than this with an earlier one.
        step: q: pixels, in [0, 255], are rounded to its multiples.
        window: w: how many numbers, which follow one another, are hashed together; None takes the paper's, 20 for
            images of CIFAR-10's size and 50 for those of ImageNet's.
        stride: p: how far apart windows begin.
        keep: s: how many hashes of a query are kept, the largest.
        salt: The number from which the secret numbers are drawn that are added to the pixels first.
    """

    threshold: int = 25
    step: int = 50
    window: int | None = None
    stride: int = 1
    keep: int = 50
    salt: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        count(threshold=self.threshold, step=self.step, stride=self.stride, keep=self.keep)
        if self.window is not None:
            count(window=self.window)
        if self.threshold >= self.keep:
            raise InputError(f"threshold must be below keep={self.keep}, or nothing is refused; got {self.threshold}")

    def fingerprint(self, x: Tensor) -> frozenset[bytes]:
        """The `keep` largest SHA-256 hashes of the windows of one query, (C, H, W)."""
        levels = self.quantised(x)
        window = self.window or WINDOWS[len(levels) > SMALL]
        starts = range(0, len(levels) - window + 1, self.stride)
        if len(starts) <= self.threshold:
            raise InputError(
                f"an image of {len(levels)} numbers has {len(starts)} windows of {window}, of which two queries can "
                f"never share more than threshold={self.threshold}: give a smaller window, stride or threshold"
            )
        text = levels.tobytes()
        different = {text[start : start + window] for start in starts}
        return frozenset(nlargest(self.keep, (hashlib.sha256(part).digest() for part in different)))

    def quantised(self, x: Tensor) -> NDArray[np.uint8]:
        """The salted pixels of one query, (C, H, W), in units of `step`, pixel by pixel: (H·W·C,)."""
        pixels = np.rint(x.double().permute(1, 2, 0).flatten().numpy() * LEVELS)
        salted = (pixels + _salt(self.salt, len(pixels))) % LEVELS
        steps: NDArray[np.uint8] = np.rint(salted / self.step).astype(np.uint8)
        return steps

    def alike(self, one: frozenset[bytes], other: frozenset[bytes]) -> bool:
        """Whether more than T of two queries' hashes are the same."""
        return len(one & other) > self.threshold


@lru_cache(maxsize=8)
def _salt(seed: int, n: int) -> NDArray[np.float64]:
    """n whole numbers in [0, 255), the same wherever they are drawn."""
    drawn: NDArray[np.float64] = uniform_of(torch.tensor([seed]), n)[0].mul(LEVELS).floor().numpy()
    return drawn


class Blacklight(Stateful):
    """A classifier behind Blacklight: a query is refused whose fingerprint is mostly that of an earlier one.

    Differences to the original: a query's pixels are read as 8 bits, as a file would bring them, so that those of an
    8-bit image do not lie on the border between two steps and change with the last bit; the largest hashes are those by
    the order of their bytes (the released code sorts their hexadecimal digits backwards; any fixed order will do); the
    salt is drawn from a number, so that a run can be repeated.

    Args:
        net: From points to scores.
        choices: The fields of WindowHashes: account, then, threshold, step, window, stride, keep, salt.
    """

    prefix = "blacklight"
    kind_of_detector = WindowHashes
