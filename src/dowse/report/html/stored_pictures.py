"""A store's images as arrays, for a page: without torch, which takes longer to import than the rest of a page."""

from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load_file

from dowse.report.html.thumbnails import Pixels
from dowse.store import Row, Store
from dowse.store.places import ORIGINALS


def original(store: Store, row: Row) -> Pixels:
    """The original of a row, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    return _read(store.folder / ORIGINALS / f"{row.checksum}.safetensors")


def adversarial(store: Store, row: Row) -> Pixels:
    """The adversarial image of a row that has one, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    if row.file is None:
        raise OSError(f"no image was kept of {row.name}")
    return _read(store.folder / row.file)


def _read(path: Path) -> Pixels:
    if path.suffix == ".png":
        with Image.open(path) as file:
            shown = np.array(file)
        levels = shown.reshape(*shown.shape[:2], -1).transpose(2, 0, 1)
    else:
        try:
            levels = load_file(path)["image"]
        except (SafetensorError, KeyError) as error:
            raise OSError(f"{path} is damaged: {error}") from error
    return levels.astype(np.float32) / np.float32(255) if levels.dtype == np.uint8 else levels
