"""What models behind ONNX, LiteRT and HTTP declare: the form of their images, and which tensors are meant."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dowse.errors import InputError, choose, nearest
from dowse.targets.options import InputOptions, Layout, PixelType
from dowse.targets.pixels import Pixels

Array = NDArray[Any]

PIXEL_TYPES: dict[str, PixelType] = {"FP32": "float32", "FP16": "float16", "FP64": "float64", "UINT8": "uint8"}
"""The Open Inference Protocol's names of the element types that images can have."""


def form_of(shape: Sequence[int | None] | None, datatype: str, image: Sequence[int], options: InputOptions) -> Pixels:
    """The form for images like `image`, (C, H, W), of a model that declares its input's shape and type.

    `shape` has None where a size is free, may lack the batch's axis, and is None where the model declares none.
    """
    choose("datatype", datatype, PIXEL_TYPES)
    layout = options.layout or _infer_layout(shape, image[0])
    _check_fits(shape, layout, image)
    for name, values in (("mean", options.mean), ("std", options.std)):
        if values is not None and len(values) not in (1, image[0]):
            raise InputError(f"{name} must be one number or {image[0]}, one for each channel, got {len(values)}")
    return Pixels("numpy", layout, PIXEL_TYPES[datatype], scale=options.scale, mean=options.mean, std=options.std)


T = TypeVar("T")


def named(what: Literal["input", "output"], tensors: Sequence[T], wanted: str | None, name_of: Callable[[T], str]) -> T:
    """A model's input or output of a name; the only input, or the first output, where none is wanted."""
    names = [name_of(tensor) for tensor in tensors]
    if wanted is None and (len(names) == 1 or what == "output"):
        return tensors[0]
    if wanted is None:
        raise InputError(f"the model has the {what}s {', '.join(names)}: say which one with {what}=")
    if wanted not in names:
        raise InputError(f"the model has no {what} {wanted!r}: {nearest(wanted, names)}")
    return tensors[names.index(wanted)]


def filled(rows: Array, size: int) -> Array:
    """Rows, (n, *s), filled up to (size, *s) with copies of the last one, for a model of a fixed batch size."""
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)]) if len(rows) < size else rows


def image_shape(shape: Sequence[int | None] | None, layout: Layout | None) -> tuple[int, int, int] | None:
    """(C, H, W) of the images that a declared input shape takes; None where it leaves something free."""
    if shape is None or len(shape) not in (3, 4):
        return None
    sizes = list(shape)[-3:]
    if any(size is None or size < 1 for size in sizes):
        return None
    first, second, third = (int(size) for size in sizes if size is not None)
    by_size: Layout = "NHWC" if third <= 4 and third < first else "NCHW"
    return (third, first, second) if (layout or by_size) == "NHWC" else (first, second, third)


def _infer_layout(shape: Sequence[int | None] | None, channels: int) -> Layout:
    """NHWC only where the declared shape says so: its last axis has the channels and its first, after rows, has not."""
    if shape is None or len(shape) not in (3, 4):
        return "NCHW"
    return "NHWC" if shape[-1] == channels and shape[-3] != channels else "NCHW"


def _check_fits(shape: Sequence[int | None] | None, layout: Layout, image: Sequence[int]) -> None:
    if shape is None or len(shape) not in (3, 4):
        return
    c, h, w = image
    wanted = (c, h, w) if layout == "NCHW" else (h, w, c)
    if any(size is not None and size >= 1 and size != got for size, got in zip(shape[-3:], wanted, strict=True)):
        raise InputError(
            f"the images are {c}×{h}×{w}, which is {wanted} in {layout}, the model takes {tuple(shape)}: "
            "resize the images, or say layout= if that is what differs"
        )
