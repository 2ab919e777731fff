"""Bytes and floats become pixels: (C, H, W) float32 in [0, 1], the shorter side scaled and the centre cut out."""

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import interpolate

Size = int | tuple[int, int] | None
"""What images are brought to: a side, or (height, width); None keeps their own."""


def to_pixels(image: np.ndarray, size: Size) -> Tensor:
    """An image (H, W, C) uint8 as pixels (C, H, W), scaled and cropped to a size."""
    if (sides := _sides(size)) is not None and image.shape[:2] != sides:
        flat = image[..., 0] if image.shape[2] == 1 else image
        fitted = ImageOps.fit(Image.fromarray(flat), (sides[1], sides[0]), Image.Resampling.BICUBIC)
        image = np.asarray(fitted).reshape(*sides, -1)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float() / 255


def fitted(image: Tensor, size: Size) -> Tensor:
    """An image (C, H, W) in [0, 1], scaled until it covers a size, its centre cut out."""
    sides = _sides(size)
    if sides is None or tuple(image.shape[1:]) == sides:
        return image
    pairs = list(zip(sides, image.shape[1:], strict=True))
    large, small = max(pairs, key=lambda pair: pair[0] / pair[1])
    h, w = (max(side, round(own * large / small)) for side, own in pairs)
    scaled = interpolate(image.unsqueeze(0), (h, w), mode="bicubic", antialias=True)[0].clamp_(0, 1)
    top, left = (h - sides[0]) // 2, (w - sides[1]) // 2
    return scaled[:, top : top + sides[0], left : left + sides[1]].contiguous()


def _sides(size: Size) -> tuple[int, int] | None:
    return (size, size) if isinstance(size, int) else size
