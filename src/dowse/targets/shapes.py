"""Which images a target takes, as far as it says so, and how a shape is written."""

import re
from typing import Any

from dowse import models
from dowse.errors import InputError
from dowse.targets.spec import Spec, parse_spec

Shape = tuple[int, int, int]


def parse_shape(text: str) -> Shape:
    """(C, H, W) of "3x224x224" or "3×224×224"."""
    parts = re.split(r"[x×,]", text.strip())
    if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"a shape is written CxHxW, for example 3x224x224, got {text!r}")
    c, h, w = map(int, parts)
    return c, h, w


def declared_shape(spec: str | Spec, target: Any) -> Shape | None:
    """(C, H, W) of the images that a resolved target takes: its own `input_shape`, or what its name implies."""
    inner = target
    while inner is not None:
        shape: Shape | None = getattr(inner, "input_shape", None)
        if shape is not None:
            return shape
        inner = getattr(inner, "net", None)  # behind a defence
    parsed = parse_spec(spec) if isinstance(spec, str) else spec
    if parsed.kind == "dowse":
        side = models.spec(parsed.name).input_size
        return 3, side, side
    if parsed.kind == "torchvision":
        side = 299 if parsed.name.startswith("inception") else 224
        return 3, side, side
    return None
