"""How an image of a store is read from its file: as an array, without torch, which a page can do without."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load_file


def read_image(path: Path) -> NDArray[np.floating[Any]]:
    """An image of a store, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    if path.suffix == ".png":
        with Image.open(path) as file:
            shown = np.array(file)
        levels = np.ascontiguousarray(shown.reshape(*shown.shape[:2], -1).transpose(2, 0, 1))
    else:
        try:
            levels = load_file(path)["image"]
        except (SafetensorError, KeyError) as error:
            raise OSError(f"{path} is damaged: {error}") from error
    return levels.astype(np.float32) / np.float32(255) if levels.dtype == np.uint8 else levels
