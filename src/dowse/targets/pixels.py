"""The form in which a model takes its images: tensors or arrays, layout, element type, scale."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dowse.errors import InputError
from dowse.targets.options import AnyLayout, Arrays, ModelOptions, PixelType


@dataclass(frozen=True)
class Pixels:
    """How points (n, C, H, W) in [0, 1] become a model's input.

    Attributes:
        arrays: What they are handed over as.
        layout: The order of the axes; NHW has none for the only channel.
        dtype: The type of an element; None is the points' own.
        flat: Whether each image is one row of numbers.
        scale: Pixels are multiplied by it; None is 255 for uint8 and 1 else.
        mean: Subtracted then, one number or one for each channel.
        std: Divided by then.
    """

    arrays: Arrays = "torch"
    layout: AnyLayout = "NCHW"
    dtype: PixelType | None = None
    flat: bool = False
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @classmethod
    def said(cls, options: ModelOptions) -> "Pixels":
        """The form that options say, whatever else is likely."""
        arrays: Arrays = options.arrays or ("numpy" if options.flat else "torch")
        return cls(arrays, options.layout or "NCHW", options.dtype, bool(options.flat)).with_scale(options)

    def with_scale(self, options: ModelOptions) -> "Pixels":
        """The same form with the numbers and the type of element that options say."""
        return replace(self, dtype=options.dtype or self.dtype, scale=options.scale, mean=options.mean, std=options.std)

    def agrees(self, options: ModelOptions) -> bool:
        """Whether nothing that options say is otherwise here."""
        float_said = options.dtype not in (None, "uint8")
        return (
            options.arrays in (None, self.arrays)
            and options.layout in (None, self.layout)
            and options.flat in (None, self.flat)
            and (options.dtype in (None, self.dtype) or (float_said and self.dtype is None))
            and not (options.dtype is None and options.scale is not None and self.dtype == "uint8")
        )

    @property
    def plain(self) -> bool:
        """Whether images go in as they are."""
        return self == Pixels()

    @property
    def differentiable(self) -> bool:
        """Whether gradients pass through it."""
        return self.arrays == "torch" and self.dtype != "uint8"

    @property
    def words(self) -> str:
        """The form in words: "numpy uint8 NHWC"."""
        parts = [self.arrays if self.arrays == "numpy" else "", self.dtype or "float", self.layout]
        scaled = "" if self.scale is None else f"0 … {self.scale:g}"
        return " ".join(part for part in (*parts, "flattened" if self.flat else "", scaled) if part)

    def encode(self, points: Tensor) -> Any:
        """A model's input of points (n, C, H, W) in [0, 1]."""
        if self.plain:
            return points
        x, scale = points, self.scale or (255.0 if self.dtype == "uint8" else 1.0)
        x = x if scale == 1 else x * scale
        if self.mean is not None or self.std is not None:
            mean, std = (self._each(points, values, other) for values, other in ((self.mean, 0.0), (self.std, 1.0)))
            x = (x - mean) / std
        if self.layout == "NHWC":
            x = x.permute(0, 2, 3, 1)
        elif self.layout == "NHW":
            if x.shape[1] != 1:
                raise InputError(f"layout NHW is for images of one channel, these have {x.shape[1]}: say NHWC or NCHW")
            x = x.squeeze(1)
        if self.dtype == "uint8":
            x = x.round().clamp(0, 255)
        x = x if self.dtype is None else x.to(getattr(torch, self.dtype))
        x = (x.flatten(1) if self.flat else x).contiguous()
        return x if self.arrays == "torch" else x.detach().cpu().numpy()

    @staticmethod
    def _each(points: Tensor, values: tuple[float, ...] | None, other: float) -> Tensor:
        """One number for each channel, (C, 1, 1), or one for all."""
        numbers = values or (other,)
        if len(numbers) not in (1, points.shape[1]):
            raise InputError(
                f"mean and std are one number or {points.shape[1]}, one for each channel, got {len(numbers)}"
            )
        return points.new_tensor(numbers).view(-1, 1, 1)
