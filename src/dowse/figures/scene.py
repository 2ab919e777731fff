"""What figures 1a to 1e look at: a target with a gradient, a surrogate, and images that the target knows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from dowse.core.inputs import check_target
from dowse.core.target import as_target
from dowse.errors import InputError
from dowse.figures.setting import Setting
from dowse.images.sets import demo_photographs, imagenet_names
from dowse.images.sources import UNREADABLE, open_images
from dowse.machine.shared_folder import shared_folder
from dowse.surrogates.prior import Surrogate, own_size
from dowse.targets import input_size, resolve_surrogate, resolve_target

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
    """

    target: nn.Module
    surrogate: Surrogate
    images: Tensor
    labels: Tensor
    names: tuple[str, ...]
    left_out: int
    source: str

    def class_name(self, label: int) -> str:
        """What a class is called, where the target's classes are ImageNet's."""
        with torch.no_grad():
            classes = self.target(self.images[:1]).shape[1]
        return imagenet_names()[label] if classes == len(imagenet_names()) else f"class {label}"


def make_scene(setting: Setting) -> Scene:
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
    return Scene(target, surrogate, torch.stack(images), torch.tensor(labels), names, left_out, _source(setting))


def _source(setting: Setting) -> str:
    path = _path(setting)
    return "the demo's photographs" if path is None else path.name


def _path(setting: Setting) -> Path | None:
    if setting.images is not None:
        return Path(setting.images)
    shared = shared_folder() / SHARED_SET
    return shared if shared.is_dir() else None


def _read(setting: Setting) -> Iterator[tuple[str, Tensor, int | None]]:
    """Names, pixels (C, H, W) and labels of a set, one by one; what cannot be read is passed over."""
    path, side = _path(setting), input_size(setting.target)
    if path is None:
        photographs = demo_photographs()
        pixels = photographs.images
        if side is not None and pixels.shape[-1] != side:
            pixels = interpolate(pixels, (side, side), mode="bilinear", antialias=True).clamp(0, 1)
        yield from zip(photographs.names, pixels, photographs.labels.tolist(), strict=True)
        return
    source = open_images(path)
    for i, entry in enumerate(source.entries):
        try:
            x = source.read(i, side)
        except UNREADABLE:
            continue
        yield entry.name, x, entry.label
