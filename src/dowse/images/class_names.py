"""What classes are called: names from a file, from the image set, or of a set that the models are known for."""

import functools
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dowse.errors import InputError


@functools.cache
def imagenet_names() -> tuple[str, ...]:
    """The names of the 1000 ImageNet classes in the order of the labels, which is that of the sorted synsets."""
    file = importlib.resources.files("dowse.images") / "imagenet_classes.txt"
    return tuple(file.read_text(encoding="utf-8").splitlines())


CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
OF_IMAGENET = re.compile(r"imagenet|nips17|torchvision:|timm:", re.IGNORECASE)


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
    if source == "demo:shapes":
        from dowse.models.shapes import NAMES

        return NAMES
    words = " ".join([str(content.get("target", "")), *content.get("surrogate", ()), source])
    if "cifar10_" in words:
        return CIFAR10
    return imagenet_names() if OF_IMAGENET.search(words) else ()


def class_name(names: Sequence[str], label: int | None) -> str:
    """A class in words; its number where it has none."""
    if label is None:
        return "unknown"
    return names[label] if 0 <= label < len(names) and names[label] else f"class {label}"
