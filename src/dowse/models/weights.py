"""Where a classifier's weights are found, and how a file of weights is read without trusting it."""

import collections
import io
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from dowse.errors import InputError
from dowse.machine.packages import install_command, installed_files, shared_folder

CODES = ".sz"  # ends the name of the scale and the zero of a tensor of 8-bit codes


class WeightsError(InputError):
    """No usable weights; the message names each place looked at and what would supply them."""


@dataclass(frozen=True)
class PackageFile:
    """A file in a distribution of the package index: the requirement that pins it, a pattern of its path."""

    requirement: str
    pattern: str

    @property
    def distribution(self) -> str:
        """The distribution's name, without the version."""
        return self.requirement.partition("==")[0]

    def locate(self) -> Path | None:
        """The file's path when the distribution is installed."""
        return next(iter(installed_files(self.distribution, self.pattern)), None)


def find(
    name: str,
    weights: str | os.PathLike[str] | None = None,
    package: PackageFile | None = None,
    shared_file: str | None = None,
) -> Path:
    """The file that holds the weights of the classifier `name`.

    `weights`, when given, is the only place. Else an installed distribution comes before the shared folder.
    """
    if weights is not None:
        if Path(weights).is_file():
            return Path(weights)
        raise WeightsError(f"no weights for {name!r}: weights={os.fspath(weights)!r} is not a file")
    looked: list[str] = []
    if package is not None:
        if path := package.locate():
            return path
        looked.append(f"the installed distribution {package.distribution}, a file {package.pattern}")
    if shared_file is not None:
        path = shared_folder() / "models" / "weights" / shared_file
        if path.is_file():
            return path
        looked.append(f"{path} (set DOWSE_SHARED to the folder that holds models/weights)")
    remedy = "pass weights=PATH (--weights PATH), a .safetensors file or a torch file of a state dict"
    if package is not None:
        remedy = f"run '{install_command(package.requirement)}', or {remedy}"
    places = "\n".join(f"  - {place}" for place in looked)
    raise WeightsError(f"no weights for {name!r}. Looked at:\n{places}\nTo supply them, {remedy}.")


def read(path: Path) -> dict[str, Tensor]:
    """The state dict in a file, its floating-point tensors in float32 and its 8-bit codes decoded to that.

    Reads .safetensors, .pkl through an unpickler that admits tensors only, and else a torch file with
    `weights_only=True`: no file can run code.
    """
    readers: dict[str, Callable[[Path], object]] = {".safetensors": safetensors.torch.load_file, ".pkl": _read_pickle}
    try:
        state = readers.get(path.suffix, _read_torch)(path)
    except (
        OSError,
        EOFError,
        KeyError,
        RuntimeError,
        ValueError,
        pickle.UnpicklingError,
        SafetensorError,
    ) as error:
        raise WeightsError(f"cannot read weights from {path}: {error}") from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise WeightsError(
            f"cannot use {path}: it holds a {type(state).__name__}, expected a state dict of tensors by name"
        )
    return _decoded({key: value.float() if value.is_floating_point() else value for key, value in state.items()})


def _decoded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state dict with 8-bit codes made numbers: where `KEY.sz` is (scale, zero), KEY is (code − zero)·scale."""
    plain = {key: value for key, value in state.items() if not key.endswith(CODES)}
    for key, value in state.items():
        if key.endswith(CODES) and (coded := key.removesuffix(CODES)) in plain:
            scale, zero = value
            plain[coded] = (plain[coded].float() - zero) * scale
    return plain


def _read_torch(file: Path | BinaryIO) -> object:
    return torch.load(file, map_location="cpu", weights_only=True)


def _read_pickle(path: Path) -> object:
    with path.open("rb") as file:
        return _TensorsOnly(file).load()


class _TensorsOnly(pickle.Unpickler):
    """An unpickler that can build an ordered dictionary of tensors and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return torch._utils._rebuild_tensor_v2
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return lambda content: _read_torch(io.BytesIO(content))
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a file of weights does not need")
