"""A surrogate as it is given: its net, and the size, classes and smoothing that it works with."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from dowse.core.prior import HasGradient
from dowse.errors import InputError, count


@dataclass(frozen=True)
class Surrogate:
    """A white-box net whose gradient of f serves as the transfer gradient.

    Attributes:
        net: From points (n, C, H, W) in [0, 1] to logits (n, K), its normalisation inside; or its spec string.
        size: The side, or (height, width), that the net works at: images are resized to it and the gradient comes back
            through the resize. None leaves them as they are.
        class_offset: Added to the target's labels to make the surrogate's: 1 for a surrogate of 1001 classes, the first
            of them background, beside a target of 1000; −1 the other way round.
        smooth: Side of the Gaussian kernel that the gradient is convolved with, 15 for the paper's defences; odd.
    """

    net: nn.Module | str
    size: int | tuple[int, int] | None = None
    class_offset: int = 0
    smooth: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.net, nn.Module | str):
            raise InputError(f"a surrogate's net must be an nn.Module or a spec, got {type(self.net).__name__}")
        sides = self.size if isinstance(self.size, tuple) else (self.size, self.size)
        if len(sides) != 2:
            raise InputError(f"a surrogate's size is a side or (height, width), got {self.size!r}")
        if self.size is not None:
            count(**{f"size[{axis}]": side for axis, side in enumerate(sides)})
        if not isinstance(self.class_offset, int) or isinstance(self.class_offset, bool):
            raise InputError(f"class_offset must be a whole number such as 1 or -1, got {self.class_offset!r}")
        if self.smooth is not None:
            count(smooth=self.smooth)
            if self.smooth % 2 == 0:
                raise InputError(f"smooth is the side of a kernel with a centre and must be odd, got {self.smooth}")


SurrogateLike = nn.Module | Surrogate | HasGradient | str
"""What `surrogate=` takes one of, or a list of: a module, its spec, one with a resolution of its own, or any prior."""


def own_size(size: int | None, side: int) -> int | None:
    """The size a surrogate's images must be brought to, None if they have it."""
    return None if size == side else size


def resized(x: Tensor, size: int | tuple[int, int]) -> Tensor:
    """Images at another size, bilinear, low-pass filtered where they shrink: (n, C, H, W) -> (n, C, h, w)."""
    sides = size if isinstance(size, tuple) else (size, size)
    if tuple(x.shape[-2:]) == sides:
        return x
    shrinks = sides[0] < x.shape[-2] or sides[1] < x.shape[-1]
    return F.interpolate(x, size=sides, mode="bilinear", align_corners=False, antialias=shrinks)
