"""Image sets in one file: .npz and .safetensors."""

from pathlib import Path
from zipfile import is_zipfile

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from dowse.errors import InputError
from dowse.images.image_set import Entry, ImageSource, Size, fitted, to_pixels
from dowse.machine.files import file_digest

ARRAYS = ("images", "labels", "target_labels")


def array_source(file: Path) -> ImageSource:
    """The images of an .npz or .safetensors file: uint8 (n, H, W, C), or floats (n, C, H, W) in [0, 1]."""
    images, labels, wanted = _read(file)
    of_bytes = images.dtype == torch.uint8
    channels = 3 if of_bytes else 1  # the axis
    if images.ndim != 4 or images.shape[channels] not in (1, 3) or not (of_bytes or images.is_floating_point()):
        turned = "(0, 2, 3, 1) makes NHWC of NCHW" if of_bytes else "(0, 3, 1, 2) makes NCHW of NHWC"
        raise InputError(
            f"images in {file} are {images.dtype} of shape {tuple(images.shape)}; expected uint8 (n, H, W, C), "
            f"or floats (n, C, H, W) in [0, 1], C = 1 or 3: images.transpose{turned}"
        )
    if images.numel() and not of_bytes and not (images.min() >= 0 and images.max() <= 1):  # NaN among them
        raise InputError(
            f"floats in {file} must lie in [0, 1], got [{float(images.min()):g}, {float(images.max()):g}]: divide them "
            "by 255"
        )
    columns = [
        _labels(file, name, given, len(images)) for name, given in (("labels", labels), ("target_labels", wanted))
    ]
    entries = [Entry(str(i), *both) for i, both in enumerate(zip(*columns, strict=True))]

    def read(i: int, size: Size) -> Tensor:
        return to_pixels(images[i].numpy(), size) if of_bytes else fitted(images[i].float(), size)

    return ImageSource(entries, file_digest(file), read)


def _read(file: Path) -> tuple[Tensor, Tensor | None, Tensor | None]:
    try:
        if file.suffix.lower() == ".npz":
            if not is_zipfile(file):  # numpy would take it for a pickle, and advise to load that
                raise InputError("it is no .npz file, which numpy.savez writes")
            with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                held = {name: torch.from_numpy(arrays[name]) for name in ARRAYS if name in arrays}
        else:
            held = {name: value for name, value in load_file(file).items() if name in ARRAYS}
    except Exception as error:  # numpy, zipfile, zlib and safetensors have errors of their own
        raise InputError(f"cannot read {file}: {error}") from error
    if "images" not in held:
        raise InputError(f"{file} holds no array named images")
    return held["images"], held.get("labels"), held.get("target_labels")


def _labels(file: Path, name: str, given: Tensor | None, n: int) -> list[int | None]:
    if given is None:
        return [None] * n
    if given.is_floating_point() or given.dtype == torch.bool or given.shape != (n,):
        raise InputError(f"{name} in {file} are {given.dtype} of shape {tuple(given.shape)}; expected integers ({n},)")
    return [int(label) for label in given]
