"""What comes in at the public boundary is checked here, before any query."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from dowse.core.target import Target
from dowse.errors import InputError

Labels = Tensor | Sequence[int]


@dataclass(frozen=True)
class Image:
    """One image of a stream.

    Attributes:
        x: The pixels in [0, 1], (C, H, W), float32 or float64.
        label: The true label; None takes the target's own.
        target_label: The class wanted of a targeted attack.
        id: Its name; None makes one of its pixels and label.
    """

    x: Tensor
    label: int | None = None
    target_label: int | None = None
    id: str | None = None


def as_image(item: Any) -> Image:
    """An Image of what a stream may hold: an Image, a tensor, or a tuple (x, label) or (x, label, target_label)."""
    if isinstance(item, Image):
        return replace(item, label=_as_label(item.label), target_label=_as_label(item.target_label))
    parts = (item,) if isinstance(item, Tensor) else item
    if not isinstance(parts, tuple | list) or not 1 <= len(parts) <= 3:
        raise InputError(
            "a stream holds images (C,H,W), pairs (x, label), triples (x, label, target_label) or dowse.Image, "
            f"got {type(item).__name__}"
        )
    x, *labels = parts
    label, target_label = ([_as_label(value) for value in labels] + [None, None])[:2]
    return Image(x, label, target_label)


def _as_label(value: Any) -> int | None:
    if isinstance(value, Tensor) and value.numel() > 1:
        raise InputError(
            f"a label is one integer, got {tuple(value.shape)}: a stream holds images, not batches. dowse.attack takes "
            "a batch; (pair for x, y in batches for pair in zip(x, y)) makes a stream of them"
        )
    try:
        return None if value is None else operator.index(value)
    except TypeError:
        raise InputError(f"a label must be an integer or None, got {value!r}") from None


def check_pixels(x: Any, rank: int) -> None:
    """Raise InputError unless x is a float image tensor of the rank in [0, 1]: 3 for (C,H,W), 4 for (N,C,H,W)."""
    shape = {3: "(C,H,W)", 4: "(N,C,H,W)"}[rank]
    if not isinstance(x, Tensor):
        remedy = "use torch.stack(x)" if isinstance(x, list | tuple) else "use torch.as_tensor(x)"
        if isinstance(x, str | PathLike):
            remedy = "read its pictures into one, or give the folder to the command line: dowse attack --images"
        raise InputError(f"images must be a torch tensor {shape}, got {type(x).__name__}: {remedy}")
    if x.dtype not in (torch.float32, torch.float64):
        remedy = "x.float() / 255" if x.dtype == torch.uint8 else "x.float()"
        raise InputError(f"images must be float32 or float64 in [0, 1], got {x.dtype}: use {remedy}")
    if x.ndim != rank:
        remedy = ": use x[None] for one image" if (rank, x.ndim) == (4, 3) else ""
        raise InputError(f"images must be {shape}, got shape {tuple(x.shape)}{remedy}")
    if x.numel() == 0:
        raise InputError(f"there is nothing to attack in images of shape {tuple(x.shape)}")
    low, high = float(x.detach().min()), float(x.detach().max())
    if math.isnan(low) or math.isnan(high):
        raise InputError("images hold NaN: look for it where they are loaded or scaled")
    if low < 0 or high > 1:
        raise InputError(
            f"pixels must lie in [0, 1], got [{low:g}, {high:g}]: divide by 255, or move the normalisation "
            "into the target"
        )


def as_labels(name: str, labels: Labels | None, n: int) -> list[int | None]:
    """Labels as n integers, or n times None; a wrong length or kind is an InputError."""
    if labels is None:
        return [None] * n
    try:
        values = torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be {n} integers, one for each image, got {labels!r}") from None
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise InputError(f"{name} must be integers, got {values.dtype}: use {name}.long()")
    values = values.reshape(1) if values.ndim == 0 else values
    if values.ndim != 1 or len(values) != n:
        raise InputError(f"{name} must be ({n},), one for each image, got {tuple(values.shape)}")
    return [int(value) for value in values]


def check_target(target: Target, like: Tensor, *, whitebox: bool) -> None:
    """Raise InputError unless the target gives gradients if they are needed, and fits the images."""
    if whitebox and not target.differentiable:
        raise InputError(
            f"this method needs the target's own gradient, so an nn.Module, got {target.name}, which gives none: "
            "attack the net behind it, or use a method that asks for scores only"
        )
    check_fits("target", target, like)


def check_fits(name: str, net: Target, like: Tensor) -> None:
    """Raise InputError if a network's weights have another dtype than the images, or these are on another device.

    Images on the CPU go with a network anywhere: rows are moved to it as they are asked about.
    """
    if net.kind is None or (net.kind.dtype == like.dtype and like.device in (torch.device("cpu"), net.kind.device)):
        return
    raise InputError(
        f"the images are {like.dtype} on {like.device}, the {name} is {net.kind.dtype} on {net.kind.device}: "
        f"move one of them, for example x.to({name}'s device and dtype)"
    )
