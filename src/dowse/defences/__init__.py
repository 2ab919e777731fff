"""Defences to put in front of any classifier; in a target's spec each is a prefix, `jpeg:75+dowse:NAME`."""

from collections.abc import Callable

from dowse.core.target import TargetLike
from dowse.defences.aaa import AAA
from dowse.defences.base import Defence
from dowse.defences.blacklight import Blacklight
from dowse.defences.denoiser import Denoiser, DenoisingUNet, load_denoiser, save_denoiser, shipped_denoiser
from dowse.defences.jpeg import Jpeg
from dowse.defences.noise import Boundary, InputNoise, OutputNoise
from dowse.defences.piha import Piha
from dowse.defences.randomization import Randomization
from dowse.defences.scores import Rounded, TopK

__all__ = [
    "AAA",
    "DEFENCES",
    "Blacklight",
    "Boundary",
    "Defence",
    "Denoiser",
    "DenoisingUNet",
    "InputNoise",
    "Jpeg",
    "OutputNoise",
    "Piha",
    "Randomization",
    "Rounded",
    "TopK",
    "load_denoiser",
    "save_denoiser",
    "shipped_denoiser",
]

ALL: tuple[type[Defence], ...] = (
    Jpeg, Randomization, Denoiser, InputNoise, OutputNoise, Boundary, Rounded, TopK, AAA, Blacklight, Piha,
)  # fmt: skip
DEFENCES: dict[str, Callable[[TargetLike, str | None], Defence]] = {one.prefix: one.for_spec for one in ALL}
"""The prefixes of a spec: each makes the defended classifier of a classifier and the text after the colon, if any."""
