"""The images of a store: originals once each, adversarial ones by run; safetensors, or PNG where that was asked for.

Whoever only reads a store does without torch, Pillow and numpy, which take seconds to import: they are imported where
they are used.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from dowse.errors import InputError
from dowse.machine.files import replacing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

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


def read_pixels(path: Path) -> "NDArray[np.floating[Any]]":
    """An image of a store as an array, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    import numpy as np
    from PIL import Image
    from safetensors.numpy import load_file

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


def load_image(path: Path) -> "Tensor":
    """As `read_pixels`, a tensor."""
    import torch

    return torch.from_numpy(read_pixels(path))


def save_original(folder: Path, checksum: str, x: "Tensor") -> None:
    """Keep the original, (C, H, W) in [0, 1]: in 8 bits if it is an 8-bit image, as it is if not."""
    from dowse.maths.grid import on_grid, pixels

    path = original_of(folder, checksum)
    if not _whole(path):
        levels = on_grid(x)
        _save(path, levels if pixels(levels, x).equal(x) else x)


def save_adversarial(folder: Path, run: str, task: int, x: "Tensor") -> str:
    """Keep an adversarial image, (C, H, W), bit by bit, or as a PNG if it is uint8; its path relative to the folder."""
    is_picture = not x.is_floating_point()
    path = Path(PICTURES, run, f"{task}.png") if is_picture else Path(ADVERSARIAL, run, f"{task}.safetensors")
    _save(folder / path, x)
    return path.as_posix()


def _save(path: Path, x: "Tensor") -> None:
    """Write an image, (C, H, W), as the file's name says."""
    import numpy as np
    from PIL import Image
    from safetensors.torch import save_file

    if path.suffix == ".png" and len(x) not in (1, 3):
        raise InputError(f"a PNG holds 1 or 3 channels, the images have {len(x)}: use --save safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=True) as file:
        if path.suffix == ".png":
            Image.fromarray(np.ascontiguousarray(x.permute(1, 2, 0).numpy()).squeeze()).save(file, format="PNG")
        else:
            save_file({"image": x.cpu().contiguous()}, file)


def _whole(path: Path) -> bool:
    """Whether an image is there and as long as its header says; its pixels are not read."""
    try:
        with safe_open(path, "pt") as file:
            return list(file.keys()) == ["image"]
    except (OSError, SafetensorError):
        return False
