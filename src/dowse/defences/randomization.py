"""Random resizing and padding as a defence (Xie et al. 2018, ICLR): each row is seen at a size and place of its own."""

import torch.nn.functional as F
from torch import Tensor

from dowse.core.seeds import uniform_of
from dowse.core.target import TargetLike
from dowse.defences.base import Defence
from dowse.errors import InputError

GROWTH = 331 / 299  # the paper's padded side over the side of its images
GREY = 0.5  # zero to a net whose pixels lie in [−1, 1], as theirs


class Randomization(Defence):
    """A classifier that sees each image resized to a random side and padded with grey at a random place.

    An image of side 299 is resized to a side in [299, 331) and padded to 331; other sizes in proportion, 224 to
    [224, 248) and 248. Resizing takes the nearest pixel, as the authors' code does. The draws come from one seed per
    row: those of the oracle in an attack, so that an image's result does not depend on its neighbours; outside it, from
    torch's global generator (`torch.manual_seed`).

    The net sees larger images than it was given. The built-in ones take any size, being convolutions and a global
    average, except the adversarially trained ones; `fixed_size` is for nets that take one size only.

    Args:
        net: From points to scores.
        fixed_size: Resize the padded image, bilinear, to the size it came with.
    """

    prefix = "randomization"
    draws_noise = True

    def __init__(self, net: TargetLike, fixed_size: bool = False) -> None:
        super().__init__(net)
        self.fixed_size = fixed_size

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """Each row resized and padded: (n, C, H, W) -> (n, C, 1.107·H, 1.107·W), or (n, C, H, W) at a fixed size."""
        height, width = x.shape[-2:]
        larger = round(height * GROWTH), round(width * GROWTH)
        draws = uniform_of(seeds, 3)
        added = (draws[:, 0] * (larger[0] - height)).long()
        canvas = x.new_full((*x.shape[:2], *larger), GREY)
        for more in sorted(set(added.tolist())):
            rows = (added == more).nonzero().squeeze(1)
            h = height + more
            w = min(larger[1], round(width * h / height))
            resized = F.interpolate(x[rows], size=(h, w), mode="nearest")
            tops = (draws[rows, 1] * (larger[0] - h + 1)).long().tolist()
            lefts = (draws[rows, 2] * (larger[1] - w + 1)).long().tolist()
            for row, image, top, left in zip(rows.tolist(), resized, tops, lefts, strict=True):
                canvas[row, :, top : top + h, left : left + w] = image
        if not self.fixed_size:
            return canvas
        return F.interpolate(canvas, size=(height, width), mode="bilinear", antialias=True)

    @classmethod
    def for_spec(cls, net: TargetLike, argument: str | None) -> "Randomization":
        """`randomization`, or `randomization:fixed` for a net that takes one size only."""
        if argument not in (None, "", "fixed"):
            raise InputError(f"randomization:{argument} is unknown: write randomization or randomization:fixed")
        return cls(net, fixed_size=argument == "fixed")
