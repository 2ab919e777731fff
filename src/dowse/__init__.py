"""Dowse measures how few queries it takes to fool an image classifier that shows nothing but its scores."""

TYPE_CHECKING = False  # as in `typing`, which the first moments of the command line do without
if TYPE_CHECKING:
    from typing import Any

    from dowse.api import Estimate, attack, estimate, stream
    from dowse.audit.benchmark import benchmark
    from dowse.audit.result import Audit
    from dowse.core.inputs import Image
    from dowse.core.observers import Observer, Progress
    from dowse.core.outcome import End, Outcome
    from dowse.core.result import Result
    from dowse.core.summary import Summary
    from dowse.errors import InputError, TargetFailedError
    from dowse.surrogates.surrogate import Surrogate
    from dowse.targets.fast import through_onnxruntime
    from dowse.targets.model import Model
    from dowse.targets.predict_function import predict_function

__version__ = "0.2.0"

__all__ = [
    "Audit",
    "End",
    "Estimate",
    "Image",
    "InputError",
    "Model",
    "Observer",
    "Outcome",
    "Progress",
    "Result",
    "Summary",
    "Surrogate",
    "TargetFailedError",
    "attack",
    "benchmark",
    "estimate",
    "predict_function",
    "stream",
    "through_onnxruntime",
]

# Where each public name lives. Names are imported when they are first used, so that `dowse --help` and all that needs
# no network starts without importing torch.
_HOMES = {
    "dowse.api": ("Estimate", "attack", "estimate", "stream"),
    "dowse.audit.benchmark": ("benchmark",),
    "dowse.audit.result": ("Audit",),
    "dowse.core.inputs": ("Image",),
    "dowse.core.observers": ("Observer", "Progress"),
    "dowse.core.outcome": ("End", "Outcome"),
    "dowse.core.result": ("Result",),
    "dowse.core.summary": ("Summary",),
    "dowse.errors": ("InputError", "TargetFailedError"),
    "dowse.surrogates.surrogate": ("Surrogate",),
    "dowse.targets.fast": ("through_onnxruntime",),
    "dowse.targets.model": ("Model",),
    "dowse.targets.predict_function": ("predict_function",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module 'dowse' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
