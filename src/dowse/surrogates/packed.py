"""Convolutions that follow each other as one step of oneDNN's: packed weights, activations in the same pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.models.layers import SameConv2d

Activation = tuple[str, tuple[float, ...]]
"""What oneDNN calls an activation, and its numbers for it."""
IDENTITY: Activation = ("none", ())
RELU: Activation = ("relu", ())
RELU6: Activation = ("hardtanh", (0.0, 6.0))
ONE = (1, 1)


def can_pack() -> bool:
    """Whether this torch has the convolutions of oneDNN that take packed weights."""
    there = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    needed = ("_convolution_pointwise", "_reorder_convolution_weight")
    return bool(there) and all(hasattr(torch.ops.mkldnn, name) for name in needed)


class Chain(nn.Module):
    """Convolutions, each followed by its activation: (n, C, H, W) -> (n, C', H', W').

    In single precision on a CPU every convolution is one call of oneDNN, with weights that were laid out for it once
    and the activation in the same pass. So is its gradient where the stride is 1: a convolution with mirrored weights.
    Autograd sees the chain as one step, which keeps the activations' results and nothing else. Elsewhere the layers
    run as they are.

    Args:
        steps: Each convolution and its activation, as oneDNN calls it.
        leak: Which share of a gradient gets through an activation where that is flat: 0 in the gradient itself.
    """

    def __init__(self, steps: Sequence[tuple[nn.Conv2d, Activation]], leak: float = 0.0) -> None:
        super().__init__()
        self.leak = leak
        self.convolutions = nn.ModuleList([convolution for convolution, _ in steps])
        self.activations = [activation for _, activation in steps]
        self._ready: dict[tuple[int, ...], list[_Packed]] = {}

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or x.device.type != "cpu":
            return self._plain(x)
        if (side := tuple(x.shape[1:])) not in self._ready:
            self._ready = {side: self._pack(x)}
        steps = self._ready[side]
        if torch.is_grad_enabled():
            y: Tensor = _Run.apply(x, steps, self.leak)  # type: ignore[no-untyped-call]
            return y
        for step in steps:
            x = step.forward(x)
        return x

    def _plain(self, x: Tensor) -> Tensor:
        for convolution, activation in zip(self.convolutions, self.activations, strict=True):
            x = convolution(x)
            x = activated(x, activation, self.leak) if activation != IDENTITY else x
        return x

    def leaking(self, leak: float) -> "Chain":
        """The same convolutions, with another gradient."""
        return Chain(list(zip(self.convolutions, self.activations, strict=True)), leak)  # type: ignore[arg-type]

    @torch.no_grad()
    def _pack(self, x: Tensor) -> list["_Packed"]:
        """The weights as oneDNN likes them for images like one of x, (n, C, H, W)."""
        x, steps = x[:1].detach(), []
        for convolution, activation in zip(self.convolutions, self.activations, strict=True):
            assert isinstance(convolution, nn.Conv2d)
            steps.append(_packed(convolution, activation, x))
            x = steps[-1].forward(x)
        return steps

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._ready = {}  # packed of weights that change now
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ready": {}}  # packed weights cannot be copied


class _Run(torch.autograd.Function):
    """The steps of a chain and, backwards, the gradient at their input; the weights have none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: list["_Packed"], leak: float) -> Tensor:
        kept: list[Tensor | None] = []
        for step in steps:
            x = step.forward(x)
            kept.append(x if step.activation != IDENTITY else None)
        ctx.steps, ctx.leak = steps, leak
        ctx.save_for_backward(*kept)
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        steps: list[_Packed] = ctx.steps
        for number, (step, y) in reversed(list(enumerate(zip(steps, ctx.saved_tensors, strict=True)))):
            g = step.backward(g, y, ctx.leak, own=number < len(steps) - 1)
        return g, None, None


class _Activated(torch.autograd.Function):
    """An activation and, backwards, what it lets through of a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, activation: Activation, leak: float) -> Tensor:
        y = F.relu6(x) if activation == RELU6 else F.relu(x)
        ctx.activation, ctx.leak = activation, leak
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        (y,) = ctx.saved_tensors
        return _through(ctx.activation, g, y, ctx.leak, own=False), None, None


def activated(x: Tensor, activation: Activation, leak: float) -> Tensor:
    """A ReLU or ReLU6 of x, (*s) -> (*s), through which a share `leak` of a gradient gets where it is flat."""
    y: Tensor = _Activated.apply(x, activation, leak)  # type: ignore[no-untyped-call]
    return y


@dataclass(frozen=True)
class _Packed:
    """One convolution with its activation.

    Attributes:
        weight: As the layer has it, (C', C/groups, k, k), grown by zeros where its padding is not even.
        packed: The same as oneDNN likes it.
        mirrored: The weights of the gradient, which is a convolution too, as oneDNN likes them; None if the stride is
            not 1.
        shape: (C, H, W) of the input.
    """

    weight: Tensor
    bias: Tensor | None
    packed: Tensor
    mirrored: Tensor | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    groups: int
    activation: Activation
    shape: torch.Size

    def forward(self, x: Tensor) -> Tensor:
        """(n, C, H, W) -> (n, C', H', W')."""
        name, bounds = self.activation
        y: Tensor = torch.ops.mkldnn._convolution_pointwise(
            x, self.packed, self.bias, self.padding, self.stride, ONE, self.groups, name, bounds, ""
        )
        return y

    def backward(self, g: Tensor, y: Tensor | None, leak: float, *, own: bool) -> Tensor:
        """The gradient at x, of that at the result y; g is written to if it is the chain's own."""
        g = g.contiguous(memory_format=torch.channels_last)
        if y is not None:
            g = _through(self.activation, g, y, leak, own=own)
        if self.mirrored is not None:
            (height, width), (above, left) = self.weight.shape[2:], self.padding
            margin = (height - 1 - above, width - 1 - left)
            at_x: Tensor = torch.ops.mkldnn._convolution_pointwise(
                g, self.mirrored, None, margin, ONE, ONE, self.groups, *IDENTITY, ""
            )
            return at_x
        like = torch.empty((len(g), *self.shape), memory_format=torch.channels_last)  # asked for its shape only
        (at_x, _, _) = torch.ops.aten.convolution_backward(
            g, like, self.weight, None, self.stride, self.padding, ONE, False, (0, 0), self.groups, (True, False, False)
        )
        return at_x


def _packed(convolution: nn.Conv2d, activation: Activation, x: Tensor) -> _Packed:
    weight, padding = _weight_and_padding(convolution, x)
    stride, groups = _pair(convolution.stride), convolution.groups
    mirrored = None
    if stride == ONE and all(side < size for side, size in zip(padding, weight.shape[2:], strict=True)):
        margin = [size - 1 - side for size, side in zip(weight.shape[2:], padding, strict=True)]
        made = F.conv2d(x, weight, None, stride, padding, groups=groups).shape
        mirrored = _as_onednn_likes(_mirrored(weight, groups), margin, ONE, groups, made)
    return _Packed(
        weight, convolution.bias, _as_onednn_likes(weight, padding, stride, groups, x.shape), mirrored, stride, padding,
        groups, activation, x.shape[1:],
    )  # fmt: skip


def _as_onednn_likes(
    weight: Tensor, padding: Sequence[int], stride: tuple[int, int], groups: int, shape: torch.Size
) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_convolution_weight(weight, padding, stride, ONE, groups, list(shape))
    return packed


def _weight_and_padding(convolution: nn.Conv2d, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """What the layer does to images like x, with the same padding on both sides.

    One more zero behind than before is the same as that many on both sides and a kernel whose first row is zero: it
    spares a copy of the feature map.
    """
    weight = convolution.weight.detach()
    if not isinstance(convolution, SameConv2d):
        return weight, _pair(convolution.padding)
    (above, below), (left, right) = convolution.margins(x)
    grown = F.pad(weight, (right - left, 0, below - above, 0)).contiguous(memory_format=torch.channels_last)
    return grown, (below, right)


def _mirrored(weight: Tensor, groups: int) -> Tensor:
    """Weights of the convolution that is the gradient, at stride 1: (C', C/groups, k, k) -> (C, C'/groups, k, k)."""
    _, inputs, *kernel = weight.shape
    by_group = weight.reshape(groups, -1, inputs, *kernel).transpose(1, 2)
    mirrored = by_group.reshape(groups * inputs, -1, *kernel).flip(2, 3)
    return mirrored.contiguous(memory_format=torch.channels_last)


def _through(activation: Activation, g: Tensor, y: Tensor, leak: float, *, own: bool) -> Tensor:
    """The gradient before an activation of that behind it, told by its result y; in g itself where that is our own."""
    into = g if own and not leak else torch.empty_like(g)
    if activation == RELU6:
        torch.ops.aten.hardtanh_backward.grad_input(g, y, *RELU6[1], grad_input=into)
    else:
        torch.ops.aten.threshold_backward.grad_input(g, y, 0.0, grad_input=into)
    return into.lerp_(g, leak) if leak else into


def _pair(given: Any) -> tuple[int, int]:
    height, width = given
    return height, width
