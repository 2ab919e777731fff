"""The demo's photographs: twenty images of ImageNet with their labels, out of an installed package."""

from dataclasses import replace
from pathlib import Path

from dowse.errors import InputError
from dowse.images.files import files_source
from dowse.images.image_set import Entry, ImageSource
from dowse.machine.packages import install_command, installed_files

PHOTOGRAPHS = "demo:photographs"  # as a path of images says it
PACKAGE = "foolbox==3.3.4"
SIDE = 224


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


def are_installed() -> bool:
    """Whether the photographs are there."""
    return bool(_files())


def _files() -> list[Path]:
    return installed_files(PACKAGE.partition("==")[0], "foolbox/data/imagenet_*_*.jpg")
