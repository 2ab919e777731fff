"""What an image set is: named, labelled, fingerprinted at once, each image read when its turn comes and made to fit."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import interpolate

from dowse.errors import InputError
from dowse.settings import LARGEST_SIDE
from dowse.wording import OWN_LABELS

LUMA = (0.299, 0.587, 0.114)
Size = int | tuple[int, int] | None
"""What images are brought to: a side, or (height, width); None keeps their own."""


def parse_size(given: Any) -> int | tuple[int, int]:
    """A size as people write it, a square as its side: 28, "28", "28x20", "28×20" or [28, 20]."""
    parts = (
        re.split(r"[x×]", given) if isinstance(given, str) else given if isinstance(given, list | tuple) else [given]
    )
    words = [str(part).strip() for part in parts]
    if len(words) not in (1, 2) or not all(word.isdecimal() and 1 <= int(word) <= LARGEST_SIDE for word in words):
        raise InputError(
            f"a size is a side such as 224, or HEIGHTxWIDTH such as 28x20, of 1 to {LARGEST_SIDE} pixels, got {given!r}"
        )
    height, width = int(words[0]), int(words[-1])
    return height if height == width else (height, width)


def to_pixels(image: np.ndarray, size: Size) -> Tensor:
    """An image (H, W, C) uint8 as pixels (C, H, W), scaled and cropped to a size."""
    if (sides := _sides(size)) is not None and image.shape[:2] != sides:
        flat = image[..., 0] if image.shape[2] == 1 else image
        fitted = ImageOps.fit(Image.fromarray(flat), (sides[1], sides[0]), Image.Resampling.BICUBIC)
        image = np.asarray(fitted).reshape(*sides, -1)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float() / 255


def fitted(image: Tensor, size: Size) -> Tensor:
    """An image (C, H, W) in [0, 1], scaled until it covers a size, its centre cut out."""
    sides = _sides(size)
    if sides is None or tuple(image.shape[1:]) == sides:
        return image
    pairs = list(zip(sides, image.shape[1:], strict=True))
    large, small = max(pairs, key=lambda pair: pair[0] / pair[1])
    h, w = (max(side, round(own * large / small)) for side, own in pairs)
    scaled = interpolate(image.unsqueeze(0), (h, w), mode="bicubic", antialias=True)[0].clamp_(0, 1)
    top, left = (h - sides[0]) // 2, (w - sides[1]) // 2
    return scaled[:, top : top + sides[0], left : left + sides[1]].contiguous()


def to_channels(image: Tensor, channels: int) -> Tensor:
    """An image (C, H, W) in [0, 1] with so many channels: grey by the luma weights of ITU-R 601, RGB by copies.

    What lies on the 8-bit grid stays on it.
    """
    if image.shape[0] == channels:
        return image
    if image.shape[0] == 1:
        return image.expand(channels, -1, -1).contiguous()
    if channels != 1 or image.shape[0] != 3:
        raise InputError(f"an image of {image.shape[0]} channels cannot have {channels}: 1 and 3 become each other")
    grey = (image * image.new_tensor(LUMA).view(3, 1, 1)).sum(0, keepdim=True).clamp(0, 1)
    levels = (image * 255).round()
    return (grey * 255).round() / 255 if torch.equal(levels / 255, image) else grey


def in_channels(source: "ImageSource", channels: int | None) -> "ImageSource":
    """An image set whose images have so many channels; None leaves them as they are."""
    if channels is None:
        return source
    return replace(source, read=lambda i, size: to_channels(source.read(i, size), channels))


def _sides(size: Size) -> tuple[int, int] | None:
    return (size, size) if isinstance(size, int) else size


UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)  # all that Pillow raises


class UnreadableImageWarning(UserWarning):
    """An image of a set could not be read and was left out; the message names it and the reason."""


@dataclass(frozen=True)
class Entry:
    """An image of a set, not read yet.

    Attributes:
        name: What it is called, its file or its number.
        label: Its class; None takes the target's own.
        target_label: The class wanted of a targeted attack, where the set names one.
    """

    name: str
    label: int | None = None
    target_label: int | None = None


@dataclass(frozen=True)
class LoadedImages:
    """Images that were read, all of one size.

    Attributes:
        images: (n, C, H, W) float32 in [0, 1].
        entries: Which they are, n of them.
    """

    images: Tensor
    entries: tuple[Entry, ...]

    def __getitem__(self, rows: slice) -> "LoadedImages":
        """Some of them."""
        return LoadedImages(self.images[rows], self.entries[rows])

    @property
    def names(self) -> tuple[str, ...]:
        """What each is called."""
        return tuple(entry.name for entry in self.entries)

    @property
    def labels(self) -> Tensor:
        """Their classes, (n,) int64; an InputError if the set does not say all of them."""
        labels = [entry.label for entry in self.entries if entry.label is not None]
        if len(labels) < len(self.entries):
            name = next(entry.name for entry in self.entries if entry.label is None)
            raise InputError(f"{name} has no label: give its folder a labels.csv with the columns file and label")
        return torch.tensor(labels)


@dataclass(frozen=True)
class ImageSource:
    """An image set.

    Attributes:
        entries: Its images in order.
        fingerprint: A hash of the file, or of the names, labels and sizes of a folder's files.
        read: From an entry's position and a size to the image, (C, H, W) float32 in [0, 1]; raises one of UNREADABLE.
        labels_from: Where its labels come from, in words; empty where there is nothing to be said.
        folders: The names of a folder's subfolders, where these are all that is known of its classes.
        by_folder: From a label for each of these, and where they come from, to the same images labelled so.
    """

    entries: Sequence[Entry]
    fingerprint: str
    read: Callable[[int, Size], Tensor] = field(repr=False)
    labels_from: str = ""
    folders: tuple[str, ...] = ()
    by_folder: "Callable[[Sequence[int], str], ImageSource] | None" = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def whose_labels(self) -> str:
        """Where its labels come from, for whoever watches a run; empty if there is nothing to say."""
        if all(entry.label is None for entry in self.entries):
            return OWN_LABELS
        return f"labels: {self.labels_from}" if self.labels_from else ""

    def load(self, limit: int | None = None, size: Size = None) -> LoadedImages:
        """The first `limit` images that can be read, all at once and at one size; those that cannot are warned of."""
        images: list[Tensor] = []
        kept: list[Entry] = []
        for i, entry in enumerate(self.entries):
            if limit is not None and len(kept) >= limit:
                break
            try:
                x = self.read(i, size)
            except UNREADABLE as error:
                warnings.warn(f"left out {entry.name}: {error}", UnreadableImageWarning, stacklevel=2)
                continue
            if images and x.shape != images[0].shape:
                (h, w), (h0, w0) = x.shape[1:], images[0].shape[1:]
                raise InputError(
                    f"{entry.name} is {h}×{w} but {kept[0].name} is {h0}×{w0}: say the size of all, "
                    "with --size or, of `dowse check`, --shape"
                )
            images.append(x)
            kept.append(entry)
        if not images:
            raise InputError("the image set is empty: none of its images could be read")
        return LoadedImages(torch.stack(images), tuple(kept))
