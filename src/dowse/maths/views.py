"""Views of an image, dimmed, shrunk and moved at random: gradients through them transfer better.

Shrunk and moved as in Xie et al. (2019), dimmed after the scaled copies of Lin et al. (2020).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST = 0.85  # the smallest side of a view, relative to the image's
DIMMEST = 0.5  # of the light of the image


def random_view(x: Tensor, rng: torch.Generator) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The image x, (C, H, W), dimmed, shrunk and put anywhere on black, and what takes gradients back.

    At least `LEAST` of its size and `DIMMEST` of its light is left, each uniformly drawn.

    The view is linear in x: what is handed back with it takes a gradient at the view, (C, H, W), to the one at x.

    >>> view, back = random_view(torch.ones(1, 8, 8), torch.Generator().manual_seed(0))
    >>> view.shape, back(torch.ones(1, 8, 8)).shape
    (torch.Size([1, 8, 8]), torch.Size([1, 8, 8]))
    """
    H, W = x.shape[-2:]
    share, light = (least + (1 - least) * float(torch.rand((), generator=rng)) for least in (LEAST, DIMMEST))
    h, w = max(1, round(share * H)), max(1, round(share * W))
    top, left = (int(torch.randint(room + 1, (), generator=rng)) for room in (H - h, W - w))
    with torch.enable_grad():
        source = x.detach().unsqueeze(0).requires_grad_()
        shrunk = F.interpolate(source, size=(h, w), mode="bilinear", align_corners=False)
        view = F.pad(shrunk, (left, W - w - left, top, H - h - top))

    def back(gradient: Tensor) -> Tensor:
        return light * torch.autograd.grad(view, source, gradient.unsqueeze(0))[0][0]

    return light * view.detach()[0], back
