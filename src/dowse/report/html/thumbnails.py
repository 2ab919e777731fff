"""Images as text: pixels to WebP to a data: address, so that a page needs no other file; without torch."""

import base64
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

if TYPE_CHECKING:  # torch takes two seconds to import, half of what a page takes
    from torch import Tensor

Pixels = NDArray[np.floating]
"""(C, H, W) in [0, 1]; a tensor on the CPU is taken for one."""
LARGEST = 288  # pixels of a thumbnail's longer side
SMALL = 96  # up to this side an image is kept pixel by pixel, without loss


def to_picture(pixels: "Pixels | Tensor", side: int) -> Image.Image:
    """Pixels (C, H, W) in [0, 1] as a picture whose longer side is `side`; much smaller ones keep their sharp pixels.

    Other numbers of channels than 1 and 3 show their mean.
    """
    given = _array(pixels)
    shown = given if len(given) in (1, 3) else given.mean(0, keepdims=True)
    levels = np.clip(np.rint(shown * 255), 0, 255).astype(np.uint8)
    picture = Image.fromarray(np.ascontiguousarray(np.broadcast_to(levels, (3, *levels.shape[1:])).transpose(1, 2, 0)))
    longest = max(picture.size)
    if longest == side:
        return picture
    width, height = (max(1, round(edge * side / longest)) for edge in picture.size)
    sharp = 2 * longest <= side
    return picture.resize((width, height), Image.Resampling.NEAREST if sharp else Image.Resampling.LANCZOS)


def data_address(pixels: "Pixels | Tensor", *, quality: int = 84) -> str:
    """Pixels (C, H, W) in [0, 1] as a data: address."""
    longest = max(pixels.shape[1:])
    how = {"lossless": True} if longest <= SMALL else {"quality": quality}
    file = io.BytesIO()
    to_picture(pixels, min(longest, LARGEST)).save(file, format="WEBP", method=4, **how)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def magnified(original: Pixels, adversarial: Pixels, factor: float) -> Pixels:
    """The perturbation `factor` times its size around mid grey, (C, H, W)."""
    return 0.5 + factor * (adversarial.astype(np.float32) - original.astype(np.float32))


def round_factor(perturbations: "Sequence[Pixels | Tensor]") -> float:
    """The largest of 1, 2, 5, 10, … that keeps 98 in 100 of all changed values within the range of grey."""
    sizes = np.concatenate([np.abs(_array(one).astype(np.float32)).ravel() for one in perturbations] or [np.zeros(0)])
    changed = sizes[sizes > 0]
    if len(changed) == 0:
        return 1.0
    rank = math.ceil(0.98 * len(changed)) - 1
    wanted = 0.5 / float(np.partition(changed, rank)[rank])
    decade = 10.0 ** math.floor(math.log10(wanted))
    return max(1.0, max(step * decade for step in (1, 2, 5) if step * decade <= wanted * (1 + 1e-9)))


def _array(pixels: "Pixels | Tensor") -> Pixels:
    return np.asarray(pixels if isinstance(pixels, np.ndarray) else pixels.cpu())
