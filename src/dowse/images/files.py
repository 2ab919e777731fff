"""Image files: folders with or without a table of labels, and how one file is read."""

import csv
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor

from dowse.errors import InputError
from dowse.images.image_set import Entry, ImageSource, Size, to_pixels
from dowse.wording import plural

ALPHABETICAL = "the places of the subfolders in alphabetical order"
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")


def folder_source(folder: Path, table: Path) -> ImageSource:
    """The images that a table lists or, where it is not there, those in a folder, labelled by its subfolders' names.

    A subfolder's label is its name if all of them are numbers, else its place in alphabetical order, until the names of
    the target's classes are known (`class_names.with_names`).
    """
    if table.is_file():
        entries = list(_listed(table))
        beside = {path.relative_to(folder).as_posix() for path in _pictures(folder)} - {one.name for one in entries}
        whose = f"the table {table.name}{_left_out(len(beside), 'without a line in it')}"
        return replace(files_source(folder, entries), labels_from=whose)
    paths = _pictures(folder)
    classes = sorted({p.relative_to(folder).parts[0] for p in paths if p.parent != folder})
    if not classes:
        return files_source(folder, [Entry(path.name) for path in paths])
    inside = [path.relative_to(folder) for path in paths if path.parent != folder]
    rest = _left_out(len(paths) - len(inside), "beside the subfolders")

    def labelled(labels: Sequence[int], labels_from: str) -> ImageSource:
        label = dict(zip(classes, labels, strict=True))
        source = files_source(folder, [Entry(path.as_posix(), label[path.parts[0]]) for path in inside])
        return replace(source, labels_from=labels_from + rest)

    if all(map(str.isdecimal, classes)):
        return labelled([int(name) for name in classes], "the numbers that the subfolders are named by")
    source = labelled(range(len(classes)), ALPHABETICAL)
    return replace(source, folders=tuple(classes), by_folder=labelled)


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())


def _left_out(pictures: int, which: str) -> str:
    """That pictures of a folder are not in its set, behind where the labels of the others come from."""
    return f"; left out: {plural(pictures, 'picture')} {which}" if pictures else ""


def files_source(folder: Path, entries: Sequence[Entry]) -> ImageSource:
    """Image files below a folder, each named by its path from there."""
    digest = hashlib.blake2b(digest_size=8)
    for entry in entries:
        path = folder / entry.name
        # spelled out, because runs are known by it: it must not change with a class's name or its fields
        said = f"Entry(name={entry.name!r}, label={entry.label!r}, target_label={entry.target_label!r})"
        digest.update(f"{said}{path.stat().st_size if path.is_file() else None}\n".encode())

    def read(i: int, size: Size) -> Tensor:
        return to_pixels(_read_file(folder / entries[i].name), size)

    return ImageSource(entries, digest.hexdigest(), read)


def _read_file(path: Path) -> np.ndarray:
    """The image as its viewer shows it, in RGB: (H, W, 3) uint8."""
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file)
        if image.mode.startswith("I;16") or (image.mode == "I" and file.format in ("PNG", "PPM")):
            return _eight_bit(np.asarray(image))
        if image.mode in ("I", "F"):
            raise ValueError(f"pixels of mode {image.mode} have no agreed range: save them as 8 or 16 bits")
        return np.asarray(image.convert("RGB"))


def _eight_bit(grey: np.ndarray) -> np.ndarray:
    """Grey pixels of 16 bits, (H, W), as RGB of 8 bits, (H, W, 3); Pillow's own conversion would cut them at 255."""
    levels = np.round(grey / 257).astype(np.uint8)  # 65535 = 255 · 257
    return np.repeat(levels[:, :, None], 3, 2)


def _listed(table: Path) -> Iterator[Entry]:
    """The rows of a table of labels."""
    try:
        with table.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if not {"file", "label"} <= set(reader.fieldnames or ()):
                raise InputError(f"{table} has the columns {reader.fieldnames}; expected file and label among them")
            known: dict[str, int | None] = {}
            for row in reader:
                where = f"line {reader.line_num} of {table}"
                entry = Entry(row["file"], _label(row["label"], where), _label(row.get("target_label"), where))
                if ".." in Path(entry.name).parts:
                    raise InputError(f"{where} leaves the folder of the images with {entry.name!r}: name files in it")
                if known.setdefault(entry.name, entry.label) != entry.label:
                    raise InputError(
                        f"{where} labels {entry.name} as {entry.label}, a line before as {known[entry.name]}: keep one"
                    )
                yield entry
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the labels from {table}: {error}") from error


def _label(text: str | None, where: str) -> int | None:
    """A class's number; nothing, where nothing is written."""
    if text is None or not text.strip():
        return None
    if not text.strip().isdecimal():
        raise InputError(f"{where} has the label {text!r}; expected the class's number, 0 or more")
    return int(text)
