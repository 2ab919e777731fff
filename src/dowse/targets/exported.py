"""Which files a spec stands for: a hash of its weights, and torch targets exported to ONNX on first use."""

import hashlib
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import torch

from dowse import models
from dowse.defences.denoiser import denoiser_file, shipped_files
from dowse.errors import InputError
from dowse.targets.spec import TORCH_KINDS, Spec, parse_spec, resolve_surrogate


@lru_cache(maxsize=64)
def weights_digest(spec: str) -> str | None:
    """A hash of the files that a target or surrogate is read from; None if its spec names none."""
    parsed = parse_spec(spec)
    files = list(_files(parsed))
    for name, argument in parsed.defences:
        if name == "denoiser":
            files += [denoiser_file(argument)] if argument else shipped_files()
    digests = [_digest(spec, file) for file in files]
    if parsed.kind == "onnx" and is_torch_spec(parsed.name) and (inner := weights_digest(parsed.name)) is not None:
        digests.append(inner)
    return "+".join(digests) or None


def _files(spec: Spec) -> Iterator[Path]:
    if spec.kind == "torchvision" and not Path(spec.options.get("weights", "")).is_file():
        return  # its own, which the spec names
    if "weights" in spec.options:
        yield Path(spec.options["weights"])
    elif spec.kind == "dowse":
        yield models.locate(spec.name)
    elif spec.kind == "tflite":
        yield Path(spec.name)
    elif spec.kind == "hf":
        from dowse.targets import hf

        yield from hf.files_of(spec.name)
    elif spec.kind == "onnx" and not is_torch_spec(spec.name):
        yield Path(spec.name)


def _digest(spec: str, file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read what {spec!r} names: {error}") from error


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
