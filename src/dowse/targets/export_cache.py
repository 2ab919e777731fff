"""ONNX files of torch networks that are made on first use and kept: by `onnx:dowse:NAME`, and for the fast path."""

import hashlib
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]

import dowse
from dowse.errors import InputError, in_a_line
from dowse.machine.files import replacing
from dowse.targets.export import INPUT, OUTPUT, export_onnx, quietly
from dowse.targets.shapes import declared_shape
from dowse.targets.spec import resolve_surrogate
from dowse.targets.weights_digest import module_digest, weights_digest


class NotTracedError(InputError):
    """A network became no file by tracing; that says nothing of what onnxruntime can."""


def cache_folder() -> Path:
    """Where exported files are kept: $DOWSE_CACHE, or `dowse` in the user's cache folder."""
    given = os.environ.get("DOWSE_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dowse"


def _key(made_of: tuple[object, ...]) -> str:
    """What tells a file in the cache from another: a hash of all that it was made of."""
    return hashlib.blake2b(repr(made_of).encode(), digest_size=8).hexdigest()


def exported_file(name: str, size: int | None = None) -> Path:
    """The ONNX file of a torch spec, written if it is not in the cache yet.

    Args:
        name: The spec, for example "dowse:imagenet_mobilenetv2".
        size: The side of the images it is to take; None takes the model's own.
    """
    made_of = (name, size, weights_digest(name), torch.__version__)
    words = re.sub(r"\W+", "-", name)
    file = cache_folder() / f"{words}-{_key(made_of)}.onnx"
    if file.is_file():
        return file
    net = resolve_surrogate(name)
    shape = (3, size, size) if size is not None else declared_shape(name, net)
    if shape is None:
        raise InputError(f"{name} does not say which images it takes: say it with #size=, as in onnx:{name}#size=224")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return export_onnx(net, file, shape).path
    except OSError as error:
        raise InputError(f"cannot write to the cache {file.parent}: {error}; set DOWSE_CACHE to a folder") from error


def traced_file(name: str, net: nn.Module, shape: Sequence[int], *, known: bool, anew: bool) -> Path:
    """The ONNX file of a network for images (C, H, W), found in the cache by its weights, or written.

    A network that torch's exporter cannot write is a NotTracedError, and so is one that looks at values to decide what
    it does: its trace would hold one of its ways only.

    Args:
        name: What the network is called, a part of what the file is known by.
        net: The network.
        shape: (C, H, W) of the images.
        known: It is a built-in one, which looks at sizes and never at values.
        anew: Write it even if it is there: a user's own code may change where no weight does.
    """
    made_of = (name, tuple(shape), module_digest(net), torch.__version__, dowse.__version__)
    file = cache_folder() / f"traced-{_key(made_of)}.onnx"
    if not file.is_file() or anew:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            _trace(net, partial, shape, known=known)
    return file


def _trace(net: nn.Module, path: Path, shape: Sequence[int], *, known: bool) -> None:
    """Write a network."""
    images = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    with quietly(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")  # as an error, raised in the tracer's C++, it would be another's words
        try:
            torch.onnx.export(
                net, (images,), str(path), dynamo=False,
                input_names=[INPUT], output_names=[OUTPUT], dynamic_axes={INPUT: {0: "n"}, OUTPUT: {0: "n"}},
            )  # fmt: skip
        except Exception as error:  # what exporters raise has no end
            raise NotTracedError(
                f"torch's exporter by tracing could not write it as an ONNX file ({in_a_line(error, 150)}); "
                "`dowse export` uses another exporter, which may"
            ) from error
    doubts = [one.message for one in heard if issubclass(one.category, TracerWarning)]
    if doubts and not known:
        raise NotTracedError(f"it looks at values to decide what it does: {doubts[0]}")
