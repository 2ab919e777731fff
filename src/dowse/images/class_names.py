"""What classes are called."""

import functools
import importlib.resources


@functools.cache
def imagenet_names() -> tuple[str, ...]:
    """The names of the 1000 ImageNet classes in the order of the labels, which is that of the sorted synsets."""
    file = importlib.resources.files("dowse.images") / "imagenet_classes.txt"
    return tuple(file.read_text(encoding="utf-8").splitlines())
