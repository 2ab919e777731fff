"""What images a target takes, as far as it or its name says so."""

import re
from collections.abc import Callable
from functools import lru_cache

from dowse import models
from dowse.core.target import Shape, Target, TargetLike, as_target
from dowse.targets.options import parse_shape
from dowse.targets.spec import Spec, open_target, parse_spec

DECLARING = ("onnx", "tflite", "http", "https")  # the kinds that say what images they take when they are opened


def declared_shape(spec: str | Spec, target: TargetLike) -> Shape | None:
    """(C, H, W) of the images that a resolved target takes: its own `input_shape`, or what its name implies."""
    return as_target(target).input_shape or _implied_shape(parse_spec(spec) if isinstance(spec, str) else spec)


def input_size(spec: str, opened: Callable[[str], Target] | None = None) -> int | None:
    """The side of the square images that a target or surrogate takes, as `input_shape` says; None for any others."""
    shape = input_shape(spec, opened)
    return shape[1] if shape is not None and shape[1] == shape[2] else None


def input_shape(spec: str, opened: Callable[[str], Target] | None = None) -> Shape | None:
    """(C, H, W) of the images that a target or surrogate takes; None if it does not say, or takes any.

    A built-in model's name tells it. Others must be asked what they declare: the target that `opened` gives, or one
    that is opened for it and closed again. Of a user's own code only the options are read.
    """
    parsed = parse_spec(spec)
    if parsed.kind in DECLARING:
        return _asked_shape(spec) if opened is None else opened(spec).input_shape
    if parsed.kind == "hf":
        from dowse.targets import hf

        return hf.declared_shape(parsed.name)
    if parsed.kind in ("torch", "python") and re.fullmatch(r"\d+x\d+x\d+", said := parsed.options.get("shape", "")):
        return parse_shape(said)
    return _implied_shape(parsed)


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
