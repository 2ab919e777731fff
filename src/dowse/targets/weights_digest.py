"""A hash of the weights that a spec stands for, so that a run whose files have changed is another run."""

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import torch
from torch import nn

from dowse import models
from dowse.defences.denoiser import denoiser_file, shipped_files
from dowse.errors import InputError
from dowse.machine.files import file_digest
from dowse.targets.spec import Spec, is_torch_spec, parse_spec


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


def module_digest(net: nn.Module) -> str:
    """A hash of the class and the weights of a network that is at hand."""
    digest = hashlib.blake2b(f"{type(net).__module__}.{type(net).__qualname__}".encode(), digest_size=8)
    for key, value in net.state_dict().items():
        digest.update(key.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


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
        return file_digest(file)
    except OSError as error:
        raise InputError(f"cannot read what {spec!r} names: {error}") from error
