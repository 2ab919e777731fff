"""JPEG compression as a defence (Guo et al. 2018, ICLR): the classifier sees what a real encoder leaves of an image."""

import io
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dowse.core.target import TargetLike
from dowse.defences.base import Defence
from dowse.errors import InputError
from dowse.machine.cpu import usable_cores

Pixels = NDArray[np.uint8]


class Jpeg(Defence):
    """A classifier that sees each image after a real JPEG encoder and decoder, Pillow's, with 4:2:0 chroma.

    Pixels are rounded to 8 bits on the way. It is not differentiable by design: an image that asks for a gradient is
    refused.

    Args:
        net: From points to scores.
        quality: 1 to 95; the paper's is 75.
    """

    prefix = "jpeg"
    has_gradient = False

    def __init__(self, net: TargetLike, quality: int = 75) -> None:
        super().__init__(net)
        if not 1 <= quality <= 95:
            raise InputError(f"a JPEG quality lies between 1 and 95, got {quality!r}")
        self.quality = quality

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """x encoded and decoded, on the grid of 1/255: (n, C, H, W) -> (n, C, H, W), C = 1 or 3."""
        if x.requires_grad and torch.is_grad_enabled():
            raise InputError("JPEG compression has no gradient: take that of the net behind it (`.net`)")
        if x.ndim != 4 or x.shape[1] not in (1, 3):
            raise InputError(f"JPEG takes grey or RGB images (n, 1 or 3, H, W), got {tuple(x.shape)}")
        rows: Pixels = (x.detach().clamp(0, 1) * 255).round().to("cpu", torch.uint8).permute(0, 2, 3, 1).numpy()
        decoded = list(_through_codec(rows, self.quality))
        if not decoded:
            return x
        return torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2).to(x) / 255

    @classmethod
    def for_spec(cls, net: TargetLike, argument: str | None) -> "Jpeg":
        """`jpeg` with quality 75, or `jpeg:QUALITY`."""
        try:
            return cls(net, 75 if not argument else int(argument))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"jpeg:{argument} must name a quality from 1 to 95, such as jpeg:75") from None


def _through_codec(rows: Pixels, quality: int) -> Iterable[Pixels]:
    """Each image (H, W, C) encoded and decoded, in threads: decoding, most of the work, leaves Python's lock."""
    if len(rows) < 2:
        return [_encoded_and_decoded(row, quality) for row in rows]
    return _threads().map(_encoded_and_decoded, rows, [quality] * len(rows))


def _encoded_and_decoded(pixels: Pixels, quality: int) -> Pixels:
    grey = pixels.shape[2] == 1
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels[:, :, 0] if grey else pixels)).save(file, "JPEG", quality=quality)
    decoded = np.asarray(Image.open(file))
    return decoded[:, :, None] if grey else decoded


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), "dowse-jpeg")
