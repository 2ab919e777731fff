"""What is attacked: networks, ONNX files and model servers, each named by a spec string; and masks on their answers."""

from dowse.targets.mask import Mask
from dowse.targets.model import Model
from dowse.targets.options import parse_shape
from dowse.targets.shapes import declared_shape, input_shape, input_size
from dowse.targets.spec import (
    Spec,
    module_of,
    open_target,
    parse_spec,
    resolve_surrogate,
    resolve_target,
    with_options,
    with_rate,
    without_pace,
)

__all__ = [
    "Mask",
    "Model",
    "Spec",
    "declared_shape",
    "input_shape",
    "input_size",
    "module_of",
    "open_target",
    "parse_shape",
    "parse_spec",
    "resolve_surrogate",
    "resolve_target",
    "with_options",
    "with_rate",
    "without_pace",
]
