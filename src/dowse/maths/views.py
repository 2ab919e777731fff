"""Views of an image, shrunk and moved at random: gradients through them transfer better (Xie et al. 2019)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST = 0.85  # the smallest side of a view, relative to the image's


def random_view(x: Tensor, rng: torch.Generator) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The image x, (C, H, W), shrunk to at least `LEAST` of its size, anywhere on black, and what takes gradients back.

    The view is linear in x: what is handed back with it takes a gradient at the view, (C, H, W), to the one at x.

    >>> view, back = random_view(torch.ones(1, 8, 8), torch.Generator().manual_seed(0))
    >>> view.shape, back(torch.ones(1, 8, 8)).shape
    (torch.Size([1, 8, 8]), torch.Size([1, 8, 8]))
    """
    H, W = x.shape[-2:]
    share = LEAST + (1 - LEAST) * float(torch.rand((), generator=rng))
    h, w = max(1, round(share * H)), max(1, round(share * W))
    top, left = (int(torch.randint(room + 1, (), generator=rng)) for room in (H - h, W - w))
    with torch.enable_grad():
        source = x.detach().unsqueeze(0).requires_grad_()
        shrunk = F.interpolate(source, size=(h, w), mode="bilinear", align_corners=False)
        view = F.pad(shrunk, (left, W - w - left, top, H - h - top))

    def back(gradient: Tensor) -> Tensor:
        return torch.autograd.grad(view, source, gradient.unsqueeze(0))[0][0]

    return view.detach()[0], back
