"""Torch targets that are run as ONNX files, exported on first use and kept in a cache: `onnx:dowse:NAME`."""

import hashlib
import os
import re
from pathlib import Path

import torch

from dowse.errors import InputError
from dowse.targets.spec import TORCH_KINDS, parse_spec, resolve_surrogate


def is_torch_spec(name: str) -> bool:
    """Whether what follows `onnx:` is not a file but a torch target to be exported."""
    try:
        return parse_spec(name).kind in TORCH_KINDS
    except InputError:
        return False


def cache_folder() -> Path:
    """Where exported files are kept: $DOWSE_CACHE, or `dowse` in the user's cache folder."""
    given = os.environ.get("DOWSE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dowse"


def exported_file(name: str, size: int | None = None) -> Path:
    """The ONNX file of a torch spec, written if it is not in the cache yet.

    Args:
        name: The spec, for example "dowse:imagenet_mobilenetv2".
        size: The side of the images it is to take; None takes the model's own.
    """
    from dowse.targets.digest import weights_digest
    from dowse.targets.export import export_onnx
    from dowse.targets.shapes import declared_shape

    made_of = (name, size, weights_digest(name), torch.__version__)
    key = hashlib.blake2b(repr(made_of).encode(), digest_size=8).hexdigest()
    words = re.sub(r"\W+", "-", name)
    file = cache_folder() / f"{words}-{key}.onnx"
    if file.is_file():
        return file
    net = resolve_surrogate(name)
    shape = (3, size, size) if size is not None else declared_shape(name, net)
    if shape is None:
        raise InputError(f"{name} does not say which images it takes: say it with #size=, as in onnx:{name}#size=224")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        made = export_onnx(net, file.with_suffix(f".{os.getpid()}"), shape).path
        return made.replace(file)
    except OSError as error:
        raise InputError(f"cannot write to the cache {file.parent}: {error}; set DOWSE_CACHE to a folder") from error
