"""The images of a store: originals once each, adversarial ones by run; safetensors, or PNG where that was asked for."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from dowse.errors import InputError
from dowse.maths.grid import on_grid, pixels

ORIGINALS, ADVERSARIAL, PICTURES = "originals", "adversarial", "pictures"


def save_original(folder: Path, checksum: str, x: Tensor) -> None:
    """Keep the original, (C, H, W) in [0, 1]: in 8 bits if it is an 8-bit image, as it is if not."""
    path = folder / ORIGINALS / f"{checksum}.safetensors"
    if not _whole(path):
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
    """An image of a store, (C, H, W) in [0, 1]; OSError if it is not there or damaged."""
    if path.suffix == ".png":
        with Image.open(path) as file:
            shown = np.array(file)
        levels = torch.from_numpy(shown.reshape(*shown.shape[:2], -1)).permute(2, 0, 1).contiguous()
    else:
        try:
            levels = load_file(path)["image"]
        except (SafetensorError, KeyError) as error:
            raise OSError(f"{path} is damaged: {error}") from error
    return levels.float() / 255 if levels.dtype == torch.uint8 else levels


def _whole(path: Path) -> bool:
    """Whether an image is there and as long as its header says; its pixels are not read."""
    try:
        with safe_open(path, "pt") as file:
            return list(file.keys()) == ["image"]
    except (OSError, SafetensorError):
        return False


def _write(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file wholly or not at all, and have it on disk as this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        write(partial)
        _to_disk(partial)
        os.replace(partial, path)
        _to_disk(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    """Have a file, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
