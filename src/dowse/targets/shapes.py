"""What images a target takes, as far as it or its name says so, and how a shape is written."""

import re
from collections.abc import Callable
from functools import lru_cache

from dowse import models
from dowse.core.target import Shape, Target, TargetLike, as_target
from dowse.errors import InputError
from dowse.settings import LARGEST_SIDE
from dowse.targets.spec import Spec, open_target, parse_spec


def parse_shape(text: str) -> Shape:
    """(C, H, W) of "3x224x224" or "3×224×224"."""
    parts = re.split(r"[x×,]", text.strip())
    if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"a shape is written CxHxW, for example 3x224x224, got {text!r}")
    c, h, w = map(int, parts)
    if max(c, h, w) > LARGEST_SIDE:
        raise InputError(f"no side of an image may be larger than {LARGEST_SIDE}, got {text!r}")
    return c, h, w


def declared_shape(spec: str | Spec, target: TargetLike) -> Shape | None:
    """(C, H, W) of the images that a resolved target takes: its own `input_shape`, or what its name implies."""
    return as_target(target).input_shape or _implied_shape(parse_spec(spec) if isinstance(spec, str) else spec)


def input_size(spec: str, opened: Callable[[str], Target] | None = None) -> int | None:
    """The side of the square images that a target or surrogate takes; None if it does not say, or takes any.

    A built-in model's name tells it. An ONNX file and a model server must be asked what they declare: the target that
    `opened` gives, or one that is opened for it and closed again.
    """
    parsed = parse_spec(spec)
    if parsed.kind not in ("onnx", "http", "https"):
        shape = _implied_shape(parsed)
    else:
        shape = _asked_shape(spec) if opened is None else opened(spec).input_shape
    return shape[1] if shape is not None and shape[1] == shape[2] else None


@lru_cache(maxsize=64)
def _asked_shape(spec: str) -> Shape | None:
    target = open_target(spec)
    try:
        return target.input_shape
    finally:
        target.close()


def _implied_shape(spec: Spec) -> Shape | None:
    """(C, H, W) as far as a target's name tells it."""
    if spec.kind not in ("dowse", "torchvision"):
        return None
    if spec.kind == "dowse":
        side = models.spec(spec.name).input_size
    else:
        side = 299 if spec.name.startswith("inception") else 224
    return 3, side, side
