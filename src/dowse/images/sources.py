"""Where images come from: a path is opened as the image set that is there, or names one of the demo's."""

import os
from dataclasses import replace
from pathlib import Path

from dowse.errors import InputError, nearest
from dowse.images.arrays import array_source
from dowse.images.files import SUFFIXES, files_source, folder_source
from dowse.images.image_set import Entry, ImageSource, fitted
from dowse.machine.packages import install_command, installed_files

PHOTOGRAPHS = "demo:photographs"  # as a path of images says it
SHAPES = "demo:shapes"
PACKAGE = "foolbox==3.3.4"
SIDE = 224
DRAWINGS = 60  # that demo:shapes holds


def photographs() -> ImageSource:
    """Twenty ImageNet photographs with their labels in 0 … 999, out of the installed foolbox; of side 224 if unsaid.

    Only the data files of that distribution are read; it need not be importable.
    """
    paths = _files()
    if not paths:
        raise InputError(
            "no demo photographs: the distribution foolbox, whose data files they are, is not installed; "
            f"run '{install_command(PACKAGE)}'"
        )
    entries = [Entry(path.name, int(path.stem.rpartition("_")[2])) for path in paths]
    source = files_source(paths[0].parent, entries)
    return replace(source, read=lambda i, size: source.read(i, size or SIDE))


def drawings() -> ImageSource:
    """Sixty drawn shapes of side 32 with their labels in 0 … 5, see `dowse.models.shapes`: nothing is read."""
    from dowse.models.shapes import NAMES, shapes

    x, y = shapes(DRAWINGS)
    entries = [Entry(f"{NAMES[label]} {i}", label) for i, label in enumerate(y.tolist())]
    return ImageSource(entries, f"{SHAPES}-{DRAWINGS}", lambda i, size: fitted(x[i], size))


def are_installed() -> bool:
    """Whether the photographs are there."""
    return bool(_files())


def _files() -> list[Path]:
    return installed_files(PACKAGE.partition("==")[0], "foolbox/data/imagenet_*_*.jpg")


DEMO = {PHOTOGRAPHS: photographs, SHAPES: drawings}
LABELS = ("auto", "target")  # any other word is the path of a table


def open_images(path: str | os.PathLike[str], labels: str = "auto") -> ImageSource:
    """The image set at a path: a folder, an .npz or .safetensors file, an image file, or one of the demo's (`DEMO`).

    A folder's labels come from its `labels.csv` (columns `file` and `label`, and `target_label` if the attack is
    targeted), else from the names of its subfolders: the number itself if all are numbers, else its place in
    alphabetical order, or the class of that name of a target whose classes have names (`class_names.with_names`);
    without either they are the target's own. An .npz or .safetensors file holds `images`, uint8 (n, H, W, C) or floats
    (n, C, H, W) in [0, 1]; it may hold `labels` and `target_labels`, (n,).

    Args:
        path: Where it is.
        labels: "auto" as above, "target" for the target's own, or the path of a CSV file, for a folder.
    """
    source = _opened(os.fspath(path), None if labels in LABELS else Path(labels))
    if not source.entries:
        read = f": a folder's images are its files in {', '.join(SUFFIXES)}" if Path(path).is_dir() else ""
        raise InputError(f"{os.fspath(path)} holds no image{read}")
    if labels == "target":
        entries = [replace(entry, label=None) for entry in source.entries]
        kept = f"{source.fingerprint}-target"
        return replace(source, entries=entries, fingerprint=kept, labels_from="", folders=(), by_folder=None)
    return source


def _opened(path: str, table: Path | None) -> ImageSource:
    place = Path(path)
    if not path:
        raise InputError("an empty path names no images: give a folder, an .npz, a .safetensors or an image file")
    if place.is_dir():
        if table is not None and not table.is_file():
            raise InputError(f"there is no table of labels at {table}: give a CSV file with the columns file and label")
        return folder_source(place, table or place / "labels.csv")
    if path.startswith("demo:") and path not in DEMO and not place.exists():
        raise InputError(f"the demo has no images {path!r}: {nearest(path, DEMO)}")
    if path not in DEMO and not place.exists():
        raise InputError(f"there are no images at {place}: give a folder, an .npz, a .safetensors or an image file")
    if table is not None:
        raise InputError(f"labels={str(table)!r} is a table for a folder of images, and {path} is none: leave it out")
    if path in DEMO:
        return DEMO[path]()
    if place.suffix.lower() in (".npz", ".safetensors"):
        return array_source(place)
    if place.suffix.lower() in SUFFIXES:
        return files_source(place.parent, [Entry(place.name)])
    raise InputError(f"{place} is no image set: give a folder, an .npz, a .safetensors or an image file")
