"""What is attacked: networks, ONNX files and model servers, each named by a spec string; and masks on their answers."""

from dowse.targets.mask import Mask
from dowse.targets.spec import Spec, parse_spec, resolve_surrogate, resolve_target

__all__ = ["Mask", "Spec", "parse_spec", "resolve_surrogate", "resolve_target"]
