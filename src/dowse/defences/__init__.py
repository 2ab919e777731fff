"""Defences to put in front of any classifier; in a target's spec each is a prefix, `jpeg:75+dowse:NAME`."""

from collections.abc import Callable

from dowse.core.target import TargetLike
from dowse.defences.base import Defence
from dowse.defences.denoiser import Denoiser, DenoisingUNet, load_denoiser, save_denoiser, shipped_denoiser
from dowse.defences.jpeg import Jpeg
from dowse.defences.randomization import Randomization

__all__ = [
    "DEFENCES",
    "Defence",
    "Denoiser",
    "DenoisingUNet",
    "Jpeg",
    "Randomization",
    "load_denoiser",
    "save_denoiser",
    "shipped_denoiser",
]

DEFENCES: dict[str, Callable[[TargetLike, str | None], Defence]] = {
    "jpeg": Jpeg.for_spec,
    "randomization": Randomization.for_spec,
    "denoiser": Denoiser.for_spec,
}
"""The prefixes of a spec: each makes the defended classifier of a classifier and the text after the colon, if any."""
