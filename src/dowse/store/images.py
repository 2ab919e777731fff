"""The images of a store: originals once each, adversarial ones by run; safetensors, or PNG where that was asked for."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from dowse.errors import InputError
from dowse.quantize import on_grid, pixels

ORIGINALS, ADVERSARIAL, PICTURES = "originals", "adversarial", "pictures"


def save_original(folder: Path, checksum: str, x: Tensor) -> None:
    """Keep the original, (C, H, W) in [0, 1]: in 8 bits if it is an 8-bit image, as it is if not."""
    path = folder / ORIGINALS / f"{checksum}.safetensors"
    if not path.exists():
        levels = on_grid(x)
        exact = torch.equal(pixels(levels, x), x)
        _write(path, lambda file: save_file({"image": (levels if exact else x).cpu().contiguous()}, file))


def save_adversarial(folder: Path, run: str, task: int, x: Tensor) -> str:
    """Keep an adversarial image, (C, H, W), bit by bit; returns its path relative to the folder."""
    path = Path(ADVERSARIAL, run, f"{task}.safetensors")
    _write(folder / path, lambda file: save_file({"image": x.cpu().contiguous()}, file))
    return path.as_posix()


def save_picture(folder: Path, run: str, task: int, levels: Tensor) -> str:
    """Keep an image, (C, H, W) uint8, C = 1 or 3, as a PNG; returns its path relative to the folder."""
    if levels.shape[0] not in (1, 3):
        raise InputError(f"a PNG holds 1 or 3 channels, the images have {levels.shape[0]}: use --save safetensors")
    path = Path(PICTURES, run, f"{task}.png")
    shown = np.ascontiguousarray(levels.permute(1, 2, 0).numpy()).squeeze()
    _write(folder / path, lambda file: Image.fromarray(shown).save(file, format="PNG"))
    return path.as_posix()


def load_image(path: Path) -> Tensor:
    """An image of a store, (C, H, W) in [0, 1]."""
    if path.suffix == ".png":
        with Image.open(path) as file:
            shown = np.array(file)
        levels = torch.from_numpy(shown.reshape(*shown.shape[:2], -1)).permute(2, 0, 1).contiguous()
    else:
        levels = load_file(path)["image"]
    return levels.float() / 255 if levels.dtype == torch.uint8 else levels


def _write(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file wholly or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
