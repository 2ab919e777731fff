"""Names for readers: of targets, of classes, and of what is in a trace."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dowse.errors import InputError
from dowse.images.class_names import imagenet_names

MODELS = {
    "mobilenetv2": "MobileNetV2", "mobilenet_v2": "MobileNetV2", "resnet18": "ResNet-18", "resnet34": "ResNet-34",
    "resnet50": "ResNet-50", "resnet101": "ResNet-101", "resnet152": "ResNet-152", "resnet20": "ResNet-20",
    "resnet56": "ResNet-56", "squeezenet10": "SqueezeNet", "squeezenet1_0": "SqueezeNet", "squeezenet": "SqueezeNet",
    "vgg16": "VGG-16", "vgg16_bn": "VGG-16-BN", "inception_v3": "Inception-v3",
    **{f"efficientnet_lite{i}": f"EfficientNet-Lite{i}" for i in range(5)},
}  # fmt: skip
DEFENCES = {"jpeg": "JPEG", "randomization": "Randomization", "denoiser": "Denoiser"}
EXPORTED = re.compile(rf"\bonnx:(?=(?:{'|'.join(DEFENCES)})[:+])")  # of a defended model that was exported whole
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
NORMS = {"l2": "ℓ₂", "linf": "ℓ∞"}
OF_IMAGENET = re.compile(r"imagenet|nips17|torchvision:|timm:", re.IGNORECASE)


def short_target(spec: str) -> str:
    """A spec as a table's heading says it: the model's name, its defences in front."""
    rest, defences = EXPORTED.sub("", spec.partition("#")[0]), []
    while match := re.match(r"(\w+)(?::([^+:]*))?\+", rest):
        word = DEFENCES.get(match[1], match[1])
        defences.append(f"{word} {match[2]}" if match[2] and match[2].isdecimal() else word)
        rest = rest[match.end() :]
    kind, _, name = rest.partition(":")
    name = name.rstrip("/") or kind
    stem = re.sub(r"\.(onnx|safetensors|pth|pt)$", "", re.split(r"[/:\\]", name)[-1])
    plain = re.sub(r"^(imagenet|cifar10|cifar)_", "", stem)
    return " + ".join([*defences, MODELS.get(plain.lower(), plain)])


def subscripts(title: str) -> list[tuple[str, bool]]:
    """A title in pieces, each with whether it stands below the line: RGF_D has a D that does, as in the paper."""
    pieces = re.split(r"_([A-Z]{1,3})(?![A-Za-z0-9_])", title)
    return [(piece, i % 2 == 1) for i, piece in enumerate(pieces) if piece]


def read_names(path: Path) -> tuple[str, ...]:
    """Class names from a text file, a line a class in the order of the labels."""
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read class names from {path}: {error}; give a text file, a line a class") from error


def class_names(content: Mapping[str, Any], source: str) -> Sequence[str]:
    """What the classes of a run are called, as far as its image set or its models tell; else nothing."""
    file = Path(source)
    if file.suffix == ".npz" and file.is_file():
        try:
            with np.load(file, allow_pickle=False) as arrays:
                if "classes" in arrays:
                    return [str(name) for name in arrays["classes"]]
        except (OSError, ValueError):
            pass
    words = " ".join([str(content.get("target", "")), *content.get("surrogate", ()), source])
    if "cifar10_" in words:
        return CIFAR10
    return imagenet_names() if OF_IMAGENET.search(words) else ()


def class_name(names: Sequence[str], label: int | None) -> str:
    """A class in words; its number where it has none."""
    if label is None:
        return "unknown"
    return names[label] if 0 <= label < len(names) and names[label] else f"class {label}"
