"""The images of a store: originals once each, adversarial ones by run; safetensors, or PNG where that was asked for."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dowse.errors import InputError
from dowse.machine.files import replacing
from dowse.maths.grid import on_grid, pixels
from dowse.store.image_files import read_image
from dowse.store.places import ADVERSARIAL, PICTURES, original_of


def save_original(folder: Path, checksum: str, x: Tensor) -> None:
    """Keep the original, (C, H, W) in [0, 1]: in 8 bits if it is an 8-bit image, as it is if not."""
    path = original_of(folder, checksum)
    if not _whole(path):
        levels = on_grid(x)
        exact = torch.equal(pixels(levels, x), x)
        _save(path, levels if exact else x)


def save_adversarial(folder: Path, run: str, task: int, x: Tensor) -> str:
    """Keep an adversarial image, (C, H, W), bit by bit, or as a PNG if it is uint8; its path relative to the folder."""
    is_picture = x.dtype == torch.uint8
    path = Path(PICTURES, run, f"{task}.png") if is_picture else Path(ADVERSARIAL, run, f"{task}.safetensors")
    _save(folder / path, x)
    return path.as_posix()


def _save(path: Path, x: Tensor) -> None:
    """Write an image, (C, H, W), as the file's name says."""
    if path.suffix == ".png" and len(x) not in (1, 3):
        raise InputError(f"a PNG holds 1 or 3 channels, the images have {len(x)}: use --save safetensors")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=True) as file:
        if path.suffix == ".png":
            Image.fromarray(np.ascontiguousarray(x.permute(1, 2, 0).numpy()).squeeze()).save(file, format="PNG")
        else:
            save_file({"image": x.cpu().contiguous()}, file)


def load_image(path: Path) -> Tensor:
    """An image of a store, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    return torch.from_numpy(read_image(path))


def _whole(path: Path) -> bool:
    """Whether an image is there and as long as its header says; its pixels are not read."""
    try:
        with safe_open(path, "pt") as file:
            return list(file.keys()) == ["image"]
    except (OSError, SafetensorError):
        return False
