"""Images as text: pixels to WebP to a data: address, so that a page needs no other file."""

import base64
import io
import math
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from dowse.maths.grid import on_grid

LARGEST = 288  # pixels of a thumbnail's longer side
SMALL = 96  # up to this side an image is kept pixel by pixel, without loss


def to_picture(pixels: Tensor, side: int) -> Image.Image:
    """Pixels (C, H, W) in [0, 1] as a picture whose longer side is `side`; much smaller ones keep their sharp pixels.

    Other numbers of channels than 1 and 3 show their mean.
    """
    shown = pixels if pixels.shape[0] in (1, 3) else pixels.mean(0, keepdim=True)
    picture = Image.fromarray(on_grid(shown.expand(3, -1, -1).cpu()).permute(1, 2, 0).numpy())
    longest = max(picture.size)
    if longest == side:
        return picture
    width, height = (max(1, round(edge * side / longest)) for edge in picture.size)
    sharp = 2 * longest <= side
    return picture.resize((width, height), Image.Resampling.NEAREST if sharp else Image.Resampling.LANCZOS)


def data_address(pixels: Tensor, *, quality: int = 84) -> str:
    """Pixels (C, H, W) in [0, 1] as a data: address."""
    longest = max(pixels.shape[1:])
    how = {"lossless": True} if longest <= SMALL else {"quality": quality}
    file = io.BytesIO()
    to_picture(pixels, min(longest, LARGEST)).save(file, format="WEBP", method=4, **how)
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
