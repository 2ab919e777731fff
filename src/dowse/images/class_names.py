"""What classes are called: names from a file, from the image set, or of a set that the models are known for."""

import functools
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dowse.errors import InputError

if TYPE_CHECKING:
    from dowse.images.image_set import ImageSource


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
    if own := names_in_set(source):
        return own
    if str(content.get("target", "")).rpartition("+")[2].startswith("hf:"):
        return names_of(str(content["target"]))
    words = " ".join([str(content.get("target", "")), *content.get("surrogate", ()), source])
    if "cifar10_" in words:
        return CIFAR10
    return imagenet_names() if OF_IMAGENET.search(words) else ()


def names_in_set(source: str) -> Sequence[str]:
    """What an image set itself calls its classes: the `classes` of an .npz, the demo's shapes; else nothing."""
    file = Path(source)
    if file.suffix == ".npz" and file.is_file():
        with suppress(OSError, ValueError), np.load(file, allow_pickle=False) as arrays:
            if "classes" in arrays:
                return [str(name) for name in arrays["classes"]]
    if source == "demo:shapes":
        from dowse.models.shapes import NAMES

        return NAMES
    return ()


def names_of(target: str) -> Sequence[str]:
    """What the classes of a target are called, by its spec: built-in, torchvision's, or a classifier's own id2label."""
    from dowse.targets import parse_spec  # here: who only reads rows need not know all targets

    with suppress(InputError):
        spec = parse_spec(target)
        if spec.kind == "onnx":
            return names_of(spec.name)
        if spec.kind == "hf":
            from dowse.targets.hf import declared_names

            return declared_names(spec.name)
        if spec.kind == "dowse" and spec.name.startswith("cifar10_"):
            return CIFAR10
        if spec.kind == "torchvision" or (spec.kind == "dowse" and spec.name.startswith("imagenet_")):
            return imagenet_names()
    return ()


def with_names(source: "ImageSource", names: Sequence[str]) -> "ImageSource":
    """An image set whose subfolders' names are looked up among the names of a target's classes.

    Letters' case, "_" and "-" do not matter, and of a class of several names, with commas between, one is enough. If
    all subfolders are found, and none twice, the labels are those classes'; else they stay the places in alphabetical
    order, and it is said why.
    """
    if not names or source.by_folder is None:
        return source
    places: dict[str, set[int]] = {}
    for label, name in enumerate(names):
        for word in _words(name):
            places.setdefault(word, set()).add(label)
    found = [places.get(_plain(folder), set()) for folder in source.folders]
    if all(len(one) == 1 for one in found) and len({min(one) for one in found}) == len(found):
        return source.by_folder([min(one) for one in found], "the subfolders' names, which are the target's classes")
    if not any(found):
        return source
    lost = [folder for folder, one in zip(source.folders, found, strict=True) if len(one) != 1] or source.folders[:1]
    why = f"for {', '.join(map(repr, lost[:3]))} names no class of the target, or several"
    return replace(source, labels_from=f"{source.labels_from}, {why}: rename it, or give a labels.csv")


def shared_names(names: Sequence[str], others: Sequence[str]) -> float:
    """Of how many classes, as a share, two lists have the same name in the same place, as `with_names` compares them.

    >>> shared_names(["tench, Tinca tinca", "gold-fish"], ["Tench", "shark"])
    0.5
    """
    both = [(_words(name), _words(other)) for name, other in zip(names, others, strict=True)]
    return sum(not one.isdisjoint(other) for one, other in both) / max(len(both), 1)


def _words(name: str) -> set[str]:
    """All that a class is called: its name, and each of several with commas between."""
    return {_plain(word) for word in (name, *name.split(","))}


def _plain(name: str) -> str:
    """A name without what people write in different ways."""
    return " ".join(re.sub(r"[_\-]+", " ", name.lower()).split())


def class_name(names: Sequence[str], label: int | None) -> str:
    """A class in words; its number where it has none."""
    if label is None:
        return "unknown"
    return names[label] if 0 <= label < len(names) and names[label] else f"class {label}"
