"""What figures 1a to 1e look at: a target with a gradient, a surrogate, and images that the target knows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from dowse.core.inputs import check_target
from dowse.core.target import Target, as_target
from dowse.errors import InputError
from dowse.figures.figure_settings import FigureSettings
from dowse.images.class_names import imagenet_names
from dowse.images.image_set import UNREADABLE
from dowse.images.sources import PHOTOGRAPHS, open_images
from dowse.machine.packages import shared_folder
from dowse.surrogates.surrogate import Surrogate, own_size
from dowse.targets import input_size, open_target, resolve_surrogate, resolve_target
from dowse.targets.fast import COMPARED, Choice, choose_backend, may_be_fast

SHARED_SET = Path("data") / "nips17_dev500"  # below $DOWSE_SHARED


@dataclass(frozen=True)
class Scene:
    """Target, surrogate and images.

    Attributes:
        target: From points (n, C, H, W) in [0, 1] to scores (n, K), with a gradient.
        surrogate: What gives the transfer gradient, at its own size.
        images: (N, C, H, W) in [0, 1], all classified as labelled.
        labels: (N,) int64.
        names: What each is called.
        left_out: How many images before the last of them the target gets wrong.
        source: What the image set is called.
        choice: What answers queries; the target itself, or onnxruntime where that was compared and is faster.
    """

    target: nn.Module
    surrogate: Surrogate
    images: Tensor
    labels: Tensor
    names: tuple[str, ...]
    left_out: int
    source: str
    choice: Choice = field(default_factory=Choice)

    @property
    def asked(self) -> nn.Module | Target:
        """Who answers the attacks' queries; gradients are the target's own."""
        return self.target if self.choice.target is None else self.choice.target

    def class_name(self, label: int) -> str:
        """What a class is called, where the target's classes are ImageNet's."""
        with torch.no_grad():
            classes = self.target(self.images[:1]).shape[1]
        return imagenet_names()[label] if classes == len(imagenet_names()) else f"class {label}"


def make_scene(setting: FigureSettings) -> Scene:
    """Load what a setting names, and keep the first `count` images that the target classifies rightly.

    Without `images` they are those of `data/nips17_dev500` of $DOWSE_SHARED if there are, else the demo's photographs.
    """
    target = resolve_target(setting.target)
    kept: list[tuple[str, Tensor, int]] = []
    left_out = 0
    for name, x, label in _read(setting):
        check_target(as_target(target), x, whitebox=True)
        with torch.no_grad():
            predicted = int(target(x.unsqueeze(0)).argmax())
        if label is None or predicted == label:
            kept.append((name, x, predicted))
        else:
            left_out += 1
        if len(kept) == setting.count:
            break
    if not kept:
        raise InputError(f"{setting.target} classifies none of the images as labelled: is this its data set?")
    names, images, labels = zip(*kept, strict=True)
    if len({x.shape for x in images}) > 1:
        raise InputError("the images have several sizes and the target does not say which it takes: make them one size")
    assert isinstance(target, nn.Module)
    size = own_size(input_size(setting.surrogate), images[0].shape[-1])
    surrogate = Surrogate(resolve_surrogate(setting.surrogate), size=size)
    stacked = torch.stack(images)
    may = stacked.dtype == torch.float32 and may_be_fast(setting.target)
    rows = len(stacked) * setting.budget
    choice = choose_backend(setting.target, stacked[:COMPARED], rows, open_target(target)) if may else Choice()
    return Scene(target, surrogate, stacked, torch.tensor(labels), names, left_out, _source(setting), choice)


def _source(setting: FigureSettings) -> str:
    path = _path(setting)
    return "the demo's photographs" if path == PHOTOGRAPHS else Path(path).name


def _path(setting: FigureSettings) -> str:
    shared = shared_folder() / SHARED_SET
    return setting.images or (str(shared) if shared.is_dir() else PHOTOGRAPHS)


def _read(setting: FigureSettings) -> Iterator[tuple[str, Tensor, int | None]]:
    """Names, pixels (C, H, W) and labels of a set, one by one; what cannot be read is passed over."""
    source, side = open_images(_path(setting)), input_size(setting.target)
    for i, entry in enumerate(source.entries):
        try:
            x = source.read(i, side)
        except UNREADABLE:
            continue
        yield entry.name, x, entry.label
