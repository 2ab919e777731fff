"""Image sets: labelled images from a folder, from an .npz file, and the demo's photographs, as pixels in [0, 1]."""

import csv
import functools
import importlib.resources
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from dowse.errors import InputError
from dowse.machine.packages import install_command, installed_files

PHOTOGRAPHS = "foolbox==3.3.4"


class ImageSet(NamedTuple):
    """Labelled images, all of one size."""

    images: Tensor
    """(n, 3, H, W) float32 in [0, 1]."""
    labels: Tensor
    """(n,) int64."""
    names: tuple[str, ...]
    """What each image is called, n strings."""


class UnreadableImageWarning(UserWarning):
    """An image of a set could not be read and was left out; the message names the file and the reason."""


def demo_files() -> list[tuple[Path, int]]:
    """Twenty ImageNet photographs of side 224 with their labels in 0 … 999, out of the installed foolbox.

    Only the data files of that distribution are read; it need not be importable.
    """
    paths = installed_files(PHOTOGRAPHS.partition("==")[0], "foolbox/data/imagenet_*_*.jpg")
    if not paths:
        raise InputError(
            "no demo photographs: the distribution foolbox, whose data files they are, is not installed; "
            f"run '{install_command(PHOTOGRAPHS)}'"
        )
    return [(path, int(path.stem.rpartition("_")[2])) for path in paths]


def demo_photographs(limit: int | None = None) -> ImageSet:
    """The demo's photographs (n, 3, 224, 224)."""
    return _read_images(demo_files(), limit, size=224)


def load_folder(
    path: str | os.PathLike[str],
    labels: str | os.PathLike[str] = "labels.csv",
    *,
    limit: int | None = None,
    size: int | None = None,
) -> ImageSet:
    """The images of a folder that a table lists: (n, 3, H, W).

    `labels` is a CSV file, inside the folder unless it is a path of its own, with at least the columns `file`
    and `label`. `limit` keeps the first so many that can be read. `size` scales each image's shorter side to it and
    cuts out the centre; without it all must have one size. A file that cannot be read is left out with an
    UnreadableImageWarning.
    """
    folder = Path(path)
    table = folder / labels
    if not table.is_file() and Path(labels).is_file():
        table = Path(labels)
    return _read_images(_read_labels(table, folder), limit, size)


def load_npz(path: str | os.PathLike[str], *, limit: int | None = None) -> ImageSet:
    """The images of an .npz file with `images` (n, H, W, 3) uint8 and `labels` (n,) integers: (n, 3, H, W)."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    except (OSError, KeyError, ValueError, BadZipFile) as error:
        raise InputError(f"cannot read {os.fspath(path)}: {error}; expected arrays images and labels") from error
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise InputError(
            f"images in {os.fspath(path)} are {images.dtype} of shape {images.shape}; expected uint8 (n, H, W, 3)"
        )
    if not np.issubdtype(labels.dtype, np.integer) or labels.shape != images.shape[:1]:
        raise InputError(
            f"labels in {os.fspath(path)} are {labels.dtype} of shape {labels.shape}; "
            f"expected integers of shape {images.shape[:1]}"
        )
    kept = slice(limit)
    pixels = _to_pixels(images[kept])
    return ImageSet(pixels, torch.from_numpy(labels[kept].astype(np.int64)), tuple(map(str, range(len(pixels)))))


@functools.cache
def imagenet_names() -> tuple[str, ...]:
    """The names of the 1000 ImageNet classes in the order of the labels, which is that of the sorted synsets."""
    file = importlib.resources.files("dowse.images") / "imagenet_classes.txt"
    return tuple(file.read_text(encoding="utf-8").splitlines())


def _read_labels(table: Path, folder: Path) -> list[tuple[Path, int]]:
    """The rows of a table of labels as (image file, label)."""
    try:
        with table.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or ()
            if not {"file", "label"} <= set(columns):
                raise InputError(f"{table} has the columns {list(columns)}; expected file and label among them")
            return [(folder / row["file"], _label(row["label"], table, reader.line_num)) for row in reader]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the labels from {table}: {error}") from error


def _label(text: str | None, table: Path, line: int) -> int:
    if text is None or not text.strip().isdecimal():
        raise InputError(f"line {line} of {table} has the label {text!r}; expected the class's number, 0 or more")
    return int(text)


def _read_images(labelled: Iterable[tuple[Path, int]], limit: int | None, size: int | None) -> ImageSet:
    """Read images until there are `limit` of them, passing over those that cannot be read."""
    images: list[np.ndarray] = []
    labels: list[int] = []
    names: list[str] = []
    for path, label in labelled:
        if limit is not None and len(images) >= limit:
            break
        try:
            pixels = read_image(path, size)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # all that Pillow raises
            warnings.warn(f"left out {path}: {error}", UnreadableImageWarning, stacklevel=3)
            continue
        if images and pixels.shape != images[0].shape:
            (h, w), (h0, w0) = pixels.shape[:2], images[0].shape[:2]
            raise InputError(f"{path} is {h}×{w} but {names[0]} is {h0}×{w0}; pass size= to bring all to one size")
        images.append(pixels)
        labels.append(label)
        names.append(path.name)
    if not images:
        raise InputError("the image set is empty: none of the images listed could be read")
    return ImageSet(_to_pixels(np.stack(images)), torch.tensor(labels), tuple(names))


def read_image(path: Path, size: int | None) -> np.ndarray:
    """The image as its viewer shows it, in RGB: (H, W, 3) uint8."""
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file).convert("RGB")
    if size is not None and image.size != (size, size):
        image = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
    return np.asarray(image)


def _to_pixels(images: np.ndarray) -> Tensor:
    """(n, H, W, 3) uint8 -> (n, 3, H, W) float32 in [0, 1]."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 255
