"""Images as text: pixels to WebP to a data: address, so that a page needs no other file."""

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

LARGEST = 288  # pixels of a thumbnail's longer side
SMALL = 96  # up to this side an image is kept pixel by pixel, without loss


def data_address(pixels: Tensor, *, quality: int = 84) -> str:
    """Pixels (1 or 3 channels, H, W) in [0, 1] as a data: address; other numbers of channels show their mean."""
    shown = pixels.detach().cpu().float().clamp(0, 1)
    if shown.shape[0] not in (1, 3):
        shown = shown.mean(0, keepdim=True)
    levels = shown.expand(3, -1, -1).mul(255).round().permute(1, 2, 0).numpy().astype(np.uint8)
    picture = Image.fromarray(levels)
    longest = max(picture.size)
    if longest > LARGEST:
        scale = LARGEST / longest
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    if longest <= SMALL:
        picture.save(file, format="WEBP", lossless=True, method=4)
    else:
        picture.save(file, format="WEBP", quality=quality, method=4)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def magnified(original: Tensor, adversarial: Tensor, factor: float) -> Tensor:
    """The perturbation `factor` times its size around mid grey, (C, H, W)."""
    return 0.5 + factor * (adversarial.float() - original.float())


def round_factor(perturbations: Sequence[Tensor]) -> float:
    """The largest of 1, 2, 5, 10, … that keeps 98 in 100 of all changed values within the range of grey."""
    sizes = [perturbation.float().abs().flatten() for perturbation in perturbations]
    changed = torch.cat([size[size > 0] for size in sizes]) if sizes else torch.zeros(0)
    if len(changed) == 0:
        return 1.0
    wanted = 0.5 / float(changed.kthvalue(math.ceil(0.98 * len(changed))).values)
    decade = 10.0 ** math.floor(math.log10(wanted))
    return max(1.0, max(step * decade for step in (1, 2, 5) if step * decade <= wanted * (1 + 1e-9)))
