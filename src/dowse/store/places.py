"""Where a store keeps its images, and how large one is, without the libraries that read its pixels."""

import math
from pathlib import Path

from safetensors import SafetensorError, safe_open

ORIGINALS, ADVERSARIAL, PICTURES = "originals", "adversarial", "pictures"


def original_of(folder: Path, checksum: str) -> Path:
    """The file of an original in a store's folder."""
    return folder / ORIGINALS / f"{checksum}.safetensors"


def tensor_size(path: Path) -> int:
    """How many numbers the image of a safetensors file has, by its header; OSError if it is not there or damaged."""
    try:
        with safe_open(path, "np") as file:
            return math.prod(file.get_slice("image").get_shape())
    except SafetensorError as error:
        raise OSError(f"{path} is damaged: {error}") from error
