"""Image sets as a run reads them: named, labelled, fingerprinted at once, and each image read when its turn comes."""

import csv
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import interpolate

from dowse.errors import InputError
from dowse.images.sets import read_image

LABELS = ("auto", "target")  # any other word is the path of a table
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)  # all that Pillow raises


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
class ImageSource:
    """An image set.

    Attributes:
        entries: Its images in order.
        fingerprint: A hash of the file, or of the names, labels and sizes of a folder's files.
        read: From an entry's position and a side (None keeps the size) to the image, (C, H, W) float32 in [0, 1];
            raises one of UNREADABLE.
    """

    entries: Sequence[Entry]
    fingerprint: str
    read: Callable[[int, int | None], Tensor] = field(repr=False)

    def __len__(self) -> int:
        return len(self.entries)


def open_images(path: str | os.PathLike[str], labels: str = "auto") -> ImageSource:
    """The image set at a path: a folder, an .npz or .safetensors file, or one image file.

    A folder's labels come from its `labels.csv` (columns `file` and `label`, and `target_label` if the attack is
    targeted), else from the names of its subfolders: the number itself if all are numbers, else its place in
    alphabetical order; without either they are the target's own. An .npz holds `images`, (n, H, W, C) uint8, a
    .safetensors file the same or floats (n, C, H, W) in [0, 1]; both may hold `labels` and `target_labels`, (n,).

    Args:
        path: Where it is.
        labels: "auto" as above, "target" for the target's own, or the path of a CSV file, for a folder.
    """
    place = Path(path)
    if place.is_dir():
        source = _folder(place, labels)
    elif not place.exists():
        raise InputError(f"there are no images at {place}: give a folder, an .npz, a .safetensors or an image file")
    elif labels not in LABELS:
        raise InputError(f"labels={labels!r} is a table for a folder of images, and {place} is one file: leave it out")
    elif place.suffix.lower() in (".npz", ".safetensors"):
        source = _arrays(place)
    elif place.suffix.lower() in SUFFIXES:
        source = _files(place.parent, [Entry(place.name)])
    else:
        raise InputError(f"{place} is no image set: give a folder, an .npz, a .safetensors or an image file")
    if not source.entries:
        raise InputError(f"{place} holds no image")
    if labels == "target":
        entries = [Entry(entry.name, None, entry.target_label) for entry in source.entries]
        return ImageSource(entries, f"{source.fingerprint}-target", source.read)
    return source


def _folder(folder: Path, labels: str) -> ImageSource:
    table = folder / "labels.csv" if labels in LABELS else Path(labels)
    if table.is_file():
        return _files(folder, list(_listed(table)))
    if labels not in LABELS:
        raise InputError(f"there is no table of labels at {table}: give a CSV file with the columns file and label")
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    classes = sorted({p.relative_to(folder).parts[0] for p in paths if p.parent != folder})
    if not classes:
        return _files(folder, [Entry(path.name) for path in paths])
    numbers = {name: int(name) if all(map(str.isdecimal, classes)) else i for i, name in enumerate(classes)}
    inside = [path.relative_to(folder) for path in paths if path.parent != folder]
    return _files(folder, [Entry(path.as_posix(), numbers[path.parts[0]]) for path in inside])


def _listed(table: Path) -> Iterator[Entry]:
    """The rows of a table of labels."""
    try:
        with table.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if not {"file", "label"} <= set(reader.fieldnames or ()):
                raise InputError(f"{table} has the columns {reader.fieldnames}; expected file and label among them")
            for row in reader:
                where = f"line {reader.line_num} of {table}"
                yield Entry(row["file"], _label(row["label"], where), _label(row.get("target_label"), where))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the labels from {table}: {error}") from error


def _label(text: str | None, where: str) -> int | None:
    """A class's number; nothing, where nothing is written."""
    if text is None or not text.strip():
        return None
    if not text.strip().isdecimal():
        raise InputError(f"{where} has the label {text!r}; expected the class's number, 0 or more")
    return int(text)


def _files(folder: Path, entries: Sequence[Entry]) -> ImageSource:
    digest = hashlib.blake2b(digest_size=8)
    for entry in entries:
        path = folder / entry.name
        digest.update(f"{entry}{path.stat().st_size if path.is_file() else None}\n".encode())

    def read(i: int, size: int | None) -> Tensor:
        return _to_pixels(read_image(folder / entries[i].name, size))

    return ImageSource(entries, digest.hexdigest(), read)


def _arrays(file: Path) -> ImageSource:
    images, labels, wanted = _read_arrays(file)
    of_bytes = images.dtype == torch.uint8
    if images.ndim != 4 or not (of_bytes or images.is_floating_point()):
        raise InputError(
            f"images in {file} are {images.dtype} of shape {tuple(images.shape)}; expected uint8 (n, H, W, C), "
            "or floats (n, C, H, W) in [0, 1]"
        )
    columns = [
        _labels_in(file, name, given, len(images)) for name, given in (("labels", labels), ("target_labels", wanted))
    ]
    entries = [Entry(str(i), *both) for i, both in enumerate(zip(*columns, strict=True))]

    def read(i: int, size: int | None) -> Tensor:
        if not of_bytes:
            return _fitted(images[i].float(), size)
        pixels = images[i].numpy()
        if size is not None and pixels.shape[:2] != (size, size):
            squeezed = pixels[..., 0] if pixels.shape[2] == 1 else pixels
            pixels = np.asarray(ImageOps.fit(Image.fromarray(squeezed), (size, size), Image.Resampling.BICUBIC))
        return _to_pixels(pixels.reshape(*pixels.shape[:2], -1))

    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=8))
    return ImageSource(entries, digest.hexdigest(), read)


def _read_arrays(file: Path) -> tuple[Tensor, Tensor | None, Tensor | None]:
    try:
        if file.suffix.lower() == ".npz":
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                held = {name: torch.from_numpy(arrays[name]) for name in _ARRAYS if name in arrays}
        else:
            held = {name: value for name, value in load_file(file).items() if name in _ARRAYS}
    except Exception as error:  # numpy, zipfile, zlib and safetensors have errors of their own
        raise InputError(f"cannot read {file}: {error}") from error
    if "images" not in held:
        raise InputError(f"{file} holds no array named images")
    return held["images"], held.get("labels"), held.get("target_labels")


_ARRAYS = ("images", "labels", "target_labels")


def _labels_in(file: Path, name: str, given: Tensor | None, n: int) -> list[int | None]:
    if given is None:
        return [None] * n
    if given.is_floating_point() or given.dtype == torch.bool or given.shape != (n,):
        raise InputError(f"{name} in {file} are {given.dtype} of shape {tuple(given.shape)}; expected integers ({n},)")
    return [int(label) for label in given]


def _fitted(image: Tensor, size: int | None) -> Tensor:
    """An image (C, H, W) in [0, 1], its shorter side scaled to `size`, its centre cut out."""
    if size is None or image.shape[1:] == (size, size):
        return image
    h, w = (max(size, round(side * size / min(image.shape[1:]))) for side in image.shape[1:])
    scaled = interpolate(image.unsqueeze(0), (h, w), mode="bicubic", antialias=True)[0].clamp_(0, 1)
    top, left = (h - size) // 2, (w - size) // 2
    return scaled[:, top : top + size, left : left + size].contiguous()


def _to_pixels(image: np.ndarray) -> Tensor:
    """(H, W, C) uint8 -> (C, H, W) float32 in [0, 1]."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float() / 255
