"""What a model of somebody else's seems to want: which of its methods is called, and with images of which form."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import nn

from dowse.core.target import Shape
from dowse.errors import InputError
from dowse.targets.declared_form import image_shape
from dowse.targets.options import AnyLayout
from dowse.targets.pixels import Pixels

METHODS = ("predict_proba", "decision_function", "predict")  # of an object that cannot be called, the first it has


def answering(given: Any, call: str | None) -> Callable[..., Any]:
    """What is called: the model itself, or a method of it."""
    if call is not None:
        method = getattr(given, call, None)
        if not callable(method):
            raise InputError(f"{type(given).__name__} has no method {call!r}: call= names the one that answers")
        return _quiet(method)
    if callable(given) and not _like_keras(given):
        made: Callable[..., Any] = given
        return made
    method = next((found for name in METHODS if callable(found := getattr(given, name, None))), None)
    if method is None:
        raise InputError(
            "a target must be a module, a callable, a spec string, or have predict_proba or predict, got "
            f"{type(given).__name__}"
        )
    return _quiet(method)


def _quiet(method: Callable[..., Any]) -> Callable[..., Any]:
    """Keras draws a bar for every call, unless it is told not to."""
    try:
        talks = "verbose" in signature(method).parameters
    except (TypeError, ValueError):
        talks = False
    return (lambda x: method(x, verbose=0)) if talks else method


def _like_keras(given: Any) -> bool:
    """Whether a model is called by `predict` though it can be called itself: it declares (None, …, C)."""
    shape = getattr(given, "input_shape", None)
    return (
        not isinstance(given, nn.Module)
        and callable(getattr(given, "predict", None))
        and isinstance(shape, tuple)
        and len(shape) in (2, 4)
        and shape[0] is None
    )


def declared(given: Any, layout: AnyLayout | None) -> Shape | None:
    """(C, H, W) of the images that a model says it takes."""
    shape = getattr(given, "input_shape", None)
    if not isinstance(shape, tuple | list | torch.Size) or len(shape) not in (3, 4):
        return None
    if len(shape) == 3 and shape[0] is not None:
        c, h, w = shape
        return c, h, w
    return image_shape(list(shape), None if layout == "NHW" else layout)


def likely(given: Any, method: Callable[..., Any], shape: tuple[int, ...]) -> list[Pixels]:
    """Forms in the order in which they are tried for images (C, H, W)."""
    flat = Pixels("numpy", "NHWC", flat=True)
    grey: list[AnyLayout] = ["NHW"] if shape[0] == 1 else []
    arrays = [
        Pixels("numpy", layout, dtype)
        for dtype in (None, "uint8")
        for layout in (("NCHW", "NHWC", *grey) if dtype is None else ("NHWC", *grey, "NCHW"))
    ]
    tensors = [Pixels("torch", layout, dtype) for dtype in (None, "uint8") for layout in ("NCHW", "NHWC", *grey)]
    if isinstance(given, nn.Module):
        return tensors
    features = getattr(given, "n_features_in_", getattr(getattr(method, "__self__", None), "n_features_in_", None))
    if isinstance(features, int):
        pixels = torch.Size(shape).numel()
        if features != pixels:
            raise InputError(
                f"{type(given).__name__} takes {features} numbers an image, these are {'×'.join(map(str, shape))} = "
                f"{pixels}: give images of its size and channels (--size, --channels)"
            )
        return [flat]
    if _like_keras(given):
        channels_first = len(given.input_shape) == 4 and given.input_shape[1] == shape[0] != given.input_shape[3]
        return [flat] if len(given.input_shape) == 2 else [Pixels("numpy", "NCHW" if channels_first else "NHWC")]
    if callable(given):
        return [tensors[0], *arrays, *tensors[1:], flat]
    return [flat, *arrays, *tensors]
