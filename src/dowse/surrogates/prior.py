"""The transfer-based prior: gradients of f through one surrogate or several, batched over images."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.core.inputs import check_fits
from dowse.core.oracle import default_batch_size
from dowse.core.prior import Prior, gradient_of
from dowse.errors import InputError, choose, count
from dowse.maths.losses import Objective
from dowse.maths.sampling import unit
from dowse.targets import resolve_surrogate

Combine = Literal["mean", "cycle"]


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


SurrogateLike = nn.Module | Surrogate | Prior | str
"""What `surrogate=` takes one of, or a list of: a module, its spec, one with a resolution of its own, or a Prior."""


class SurrogatePrior:
    """The gradient of f through one surrogate.

    A surrogate that draws noise per row is given the image's turn for a seed.

    Args:
        surrogate: The net, its size, class offset and smoothing.
        objective: The attack's objective; its loss is taken of the surrogate's logits.
        batch_size: The most rows of one forward and backward pass; None chooses by the image's size.
        classes: How many the target has, if that is known.
    """

    takes_turns = True

    def __init__(
        self,
        surrogate: Surrogate | nn.Module,
        objective: Objective,
        batch_size: int | None = None,
        classes: int | None = None,
    ) -> None:
        if isinstance(surrogate, nn.Module):
            surrogate = Surrogate(surrogate)
        self.surrogate = surrogate
        self.net = resolve_surrogate(surrogate.net) if isinstance(surrogate.net, str) else surrogate.net
        self.objective = Objective(objective.loss, "logits", objective.targeted)
        self.batch_size, self.classes = batch_size, classes

    def gradient(self, x: Tensor, labels: Tensor, turns: Tensor | None = None) -> Tensor:
        """∇f at each row: (n, *s), (n,) -> (n, *s). Rows are independent, so one sum serves them all."""
        rows = self.batch_size or default_batch_size(x)
        turns = torch.zeros_like(labels) if turns is None else turns
        parts = [slice(start, start + rows) for start in range(0, len(x), rows)]
        g = torch.cat([self._gradient(x[part], labels[part], turns[part]) for part in parts])
        return g if self.surrogate.smooth is None else smoothed(g, self.surrogate.smooth)

    def _gradient(self, x: Tensor, labels: Tensor, turns: Tensor) -> Tensor:
        with torch.enable_grad():
            x = x.detach().clone().requires_grad_()
            seen = x if self.surrogate.size is None else resized(x, self.surrogate.size)
            logits = self.net(seen, seeds=turns) if getattr(self.net, "takes_row_seeds", False) else self.net(seen)
            loss = self.objective.value(logits.double(), self._labels(labels, logits).to(x.device))
            (gradient,) = torch.autograd.grad(loss.sum(), x)
        return gradient

    def _labels(self, labels: Tensor, logits: Tensor) -> Tensor:
        """The surrogate's labels of the target's, (n,)."""
        shifted, classes = labels + self.surrogate.class_offset, logits.shape[1]
        if self.classes not in (None, classes) and self.surrogate.class_offset == 0:
            warnings.warn(
                f"the surrogate has {classes} classes, the target {self.classes}: if their numbers are shifted, give "
                "dowse.Surrogate(net, class_offset=1) or -1",
                stacklevel=2,
            )
            self.classes = None
        wrong = (shifted < 0) | (shifted >= classes)
        if wrong.any():
            raise InputError(
                f"label {int(labels[wrong][0])} is none of the surrogate's {classes} classes with class_offset="
                f"{self.surrogate.class_offset}: give dowse.Surrogate(net, class_offset=…) the right one"
            )
        return shifted


class Ensemble:
    """Several priors as one: the mean of their normalised gradients, or each in its turn.

    Args:
        priors: At least one.
        combine: "mean", or "cycle", where an image's first gradient comes from the first prior, its second from the
            second, and so on around.
    """

    takes_turns = True

    def __init__(self, priors: Sequence[Prior], combine: str = "mean") -> None:
        choose("combine", combine, get_args(Combine))
        if not priors:
            raise InputError("a list of surrogates must name at least one, got none")
        self.priors, self.combine = tuple(priors), combine

    def gradient(self, x: Tensor, labels: Tensor, turns: Tensor | None = None) -> Tensor:
        """The combined gradient at each row: (n, *s), (n,), (n,) -> (n, *s); its length has no meaning."""
        turns = torch.zeros_like(labels) if turns is None else turns
        if self.combine == "mean":
            units = [unit(gradient_of(prior, x, labels, turns), batched=True) for prior in self.priors]
            return torch.stack(units).mean(0)
        g = torch.empty_like(x)
        for i, prior in enumerate(self.priors):
            rows = (turns % len(self.priors) == i).nonzero().squeeze(1)
            if len(rows):
                g[rows] = gradient_of(prior, x[rows], labels[rows], turns[rows] // len(self.priors))
        return g


def as_prior(
    surrogate: SurrogateLike | Sequence[SurrogateLike] | None,
    objective: Objective,
    like: Tensor,
    *,
    combine: str = "mean",
    batch_size: int | None = None,
    classes: int | None = None,
) -> Prior | None:
    """The prior of what the caller gave, checked against one image, (C, H, W), and the target's number of classes."""
    choose("combine", combine, get_args(Combine))
    if surrogate is None:
        return None
    if isinstance(surrogate, list | tuple):
        return Ensemble([_as_prior(one, objective, like, batch_size, classes) for one in surrogate], combine)
    return _as_prior(surrogate, objective, like, batch_size, classes)


def _as_prior(surrogate: Any, objective: Objective, like: Tensor, batch_size: int | None, classes: int | None) -> Prior:
    if not isinstance(surrogate, nn.Module | Surrogate | str):
        if callable(getattr(surrogate, "gradient", None)):
            prior: Prior = surrogate
            return prior
        raise InputError(
            "surrogate must be a module, a dowse.Surrogate, a spec or an object with gradient(x, labels), or a list "
            f"of these, got {type(surrogate).__name__}"
        )
    if not isinstance(surrogate, Surrogate):
        surrogate = Surrogate(surrogate)
    made = SurrogatePrior(surrogate, objective, batch_size, classes)
    check_fits("surrogate", made.net, like)
    if not getattr(made.net, "differentiable", True):
        raise InputError(
            f"the surrogate {type(made.net).__name__} has no gradient: use the net behind it, or another surrogate"
        )
    if made.net.training:
        warnings.warn("the surrogate is in training mode: call surrogate.eval() first", stacklevel=5)
    return made


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


def smoothed(g: Tensor, side: int) -> Tensor:
    """Each channel convolved with a Gaussian of side×side pixels that spans ±3σ, zeros beyond the border.

    The gradient of a translation-invariant attack (Dong et al. 2019, CVPR, Eq. (8)): (n, C, H, W) -> the same.
    """
    channels, kernel = g.shape[1], _gaussian(side).to(g)
    g = F.conv2d(g, kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1), padding=(side // 2, 0), groups=channels)
    return F.conv2d(g, kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1), padding=(0, side // 2), groups=channels)


@lru_cache
def _gaussian(side: int) -> Tensor:
    """A Gaussian at `side` points from −3σ to 3σ that sums to one; the square kernel is its outer product."""
    density = torch.exp(-0.5 * torch.linspace(-3, 3, side, dtype=torch.float64) ** 2)
    return density / density.sum()
