"""A surrogate's faster form: the same function, batch norms folded, convolutions one after another in one step."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import GraphModule, Tracer

from dowse.core.packing import WIDER, shared_rows
from dowse.core.target import Shape, as_target
from dowse.machine.cpu import channels_last
from dowse.surrogates.chains import chained
from dowse.surrogates.folding import fold
from dowse.targets import input_shape, resolve_surrogate

LOGITS, GRADIENTS = 1e-4, 0.1  # differences in length that are taken for rounding, and for kinks that rounding crosses
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
KEPT = ("steady", "input_shape")  # of a Target's attributes, those that a network may carry
TOGETHER = 4  # rows of a pass of large images that are fastest: their weights are read once, their feature maps fit


class Alike(NamedTuple):
    """Passes of so many images (C, H, W), most first: a network was seen to say the same in all, bit by bit."""

    sizes: tuple[int, ...]
    shape: Shape


class RowByRow(nn.Linear):
    """A linear layer that multiplies a few rows one by one: of several at once the last bits are others."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """(n, F) -> (n, K)."""
        if x.ndim != 2 or not 1 < len(x) <= TOGETHER:
            return super().forward(x)
        return torch.cat([F.linear(row, self.weight, self.bias) for row in x.unsqueeze(1)])


def open_surrogate(spec: str) -> nn.Module:
    """The white-box module of a spec, as fast as it can be made: `faster`."""
    return faster(resolve_surrogate(spec), input_shape(spec))


def faster(net: nn.Module, shape: Shape | None = None) -> nn.Module:
    """A frozen network with its batch norms folded into the convolutions before them, and its convolutions packed.

    The network is traced without running it; one whose course depends on values, that has hooks, that draws noise or
    that has nothing to gain is given back as it is, and so is one whose faster form differs by more than rounding on an
    image of noise. `net` itself is not changed.

    Args:
        net: From points (n, C, H, W) in [0, 1] to logits (n, K), frozen and in eval mode.
        shape: (C, H, W) of its images; None tries 64×64 pixels.

    Returns:
        A module with `alike`, an `Alike` or None, or `net`.
    """
    if not _may_change(net):
        return net
    for chaining in (True, False):
        try:
            made = _make(net, shape, chaining=chaining)
            if made is not None and _agree(net, made, shape or (_channels(net), 64, 64)):
                object.__setattr__(made, "alike", _alike(made, shape))
                return made
        except Exception:  # what a stranger's forward raises when it is traced has no end, and no surrogate needs this
            continue
    return net


def _may_change(net: nn.Module) -> bool:
    """Whether there is something to gain and nothing that a trace would lose."""
    layers = list(net.modules())
    return (
        any(isinstance(layer, nn.Conv2d) for layer in layers)
        and not any(layer.training for layer in layers)
        and not any(p.requires_grad for p in net.parameters())
        and not has_hooks(net)
        and not as_target(net).takes_row_seeds
    )


def has_hooks(net: nn.Module) -> bool:
    """Whether somebody listens to a network's layers: a trace of it would not tell them."""
    return any(getattr(layer, hooks) for layer in net.modules() for hooks in HOOKS)


class _Layers(Tracer):
    """Takes convolutions and batch norms for single steps, also those of classes derived from torch's."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """As Tracer's."""
        return isinstance(m, nn.Conv2d | nn.BatchNorm2d) or super().is_leaf_module(m, module_qualified_name)


def traced(net: nn.Module) -> GraphModule:
    """What a network does, step by step; it has folders of its own for the layers, which are the net's."""
    return GraphModule(net, _Layers().trace(net))


def _make(net: nn.Module, shape: Shape | None, *, chaining: bool) -> GraphModule | None:
    """The faster form; None if that is the net as it was."""
    made = traced(net)
    changed = fold(made)
    channels_last(made.eval().requires_grad_(False))
    if chaining and chained(made):
        changed = True
        for name, layer in list(made.named_modules()):
            if type(layer) is nn.Linear and not _is_small(shape):
                made.set_submodule(name, RowByRow(layer))
    for name in KEPT:
        if hasattr(net, name):
            object.__setattr__(made, name, getattr(net, name))
    return made if changed else None


def _agree(net: nn.Module, made: nn.Module, shape: Shape) -> bool:
    """Whether logits and gradients of the two are the same up to rounding."""
    x = _noise(net, shape, rows=1)
    (z, g), (z_made, g_made) = _said(net, x), _said(made, x)
    return bool((z - z_made).norm() <= LOGITS * z.norm() and (g - g_made).norm() <= GRADIENTS * g.norm())


def _alike(made: nn.Module, shape: Shape | None) -> Alike | None:
    """The usual passes and those of fewer, if the first and the last of a few images have the same bits in both.

    The order of a convolution's sums does not depend on values, so what holds for noise holds for photographs.
    """
    if shape is None:
        return None
    shared = shared_rows(math.prod(shape))
    sizes = (shared, shared // 2) if _is_small(shape) else (TOGETHER, 1)
    return Alike(sizes, shape) if _same_bits(made, shape, sizes) else None


def widened(made: nn.Module, alike: Alike) -> Alike:
    """With wider passes, where these have the same bits too; who has that many rows asks for it, for it takes as long.

    A row of ResNet-32 takes 1.8 ms in passes of 8, 1.65 of 16 and 1.6 of 32.
    """
    usual = alike.sizes[0]
    for wide in ((2 * WIDER, WIDER), (WIDER,)):
        if _same_bits(made, alike.shape, (*wide, usual)):
            return Alike((*wide, *alike.sizes), alike.shape)
    return alike


def _same_bits(made: nn.Module, shape: Shape, sizes: Sequence[int]) -> bool:
    """Whether the first and the last images of the widest pass have the same bits in each smaller one."""
    most, *smaller = sizes
    x = _noise(made, shape, rows=most)
    together = _said(made, x)
    return all(
        torch.equal(a[:fewer], b) and torch.equal(a[-fewer:], c)
        for fewer in smaller
        for a, b, c in zip(together, _said(made, x[:fewer]), _said(made, x[-fewer:]), strict=True)
    )


def _is_small(shape: Shape | None) -> bool:
    """Whether images (C, H, W) are so small that they share passes in any case."""
    return shape is not None and shared_rows(math.prod(shape)) > 1


def _noise(net: nn.Module, shape: Shape, rows: int) -> Tensor:
    return torch.rand(rows, *shape, generator=torch.Generator().manual_seed(0)).to(next(net.parameters()))


def _channels(net: nn.Module) -> int:
    return next(layer.in_channels for layer in net.modules() if isinstance(layer, nn.Conv2d))


def _said(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        logits: Tensor = net(x)
        (gradient,) = torch.autograd.grad(logits.square().sum(), x)
    return logits.detach(), gradient
