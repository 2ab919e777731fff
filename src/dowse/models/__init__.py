"""Named classifiers with their weights: `load(name)` gives a network from RGB pixels in [0, 1] to logits."""

import os
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from dowse.machine import cpu
from dowse.models.registry import ModelSpec, names, spec
from dowse.models.weights import PackageFile, WeightsError, find, read

__all__ = ["ModelSpec", "PackageFile", "WeightsError", "load", "locate", "names", "spec"]


def locate(name: str, weights: str | os.PathLike[str] | None = None) -> Path:
    """The file `load` would read; WeightsError names every place looked at when there is none."""
    wanted = spec(name)
    return find(name, weights, wanted.package, wanted.shared_file)


def load(name: str, weights: str | os.PathLike[str] | None = None, *, channels_last: bool = True) -> nn.Module:
    """The classifier `name`, frozen and in eval mode: pixels (n, 3, H, W) in [0, 1] -> logits (n, K).

    The weights are read from `weights`, else from the installed distribution that carries them, else from
    `$DOWSE_SHARED/models/weights`. `channels_last` lays the weights out as most CPU convolutions prefer; it moves
    the logits by rounding only.
    """
    wanted = spec(name)
    path = locate(name, weights)
    state = {wanted.rename(key): value for key, value in read(path).items()}
    net = wanted.build()
    _fill(net, state, name, path)
    net.eval().requires_grad_(False)
    object.__setattr__(net, "steady", True)  # measured, see docs/decisions/0008; `dowse.core.target` reads it
    return cpu.channels_last(net) if channels_last else net


def _fill(net: nn.Module, state: Mapping[str, Tensor], name: str, path: Path) -> None:
    """Put `state` into `net`, or say how they differ. Counters of training batches may be missing."""
    try:
        missing, extra = net.load_state_dict(state, strict=False)
    except RuntimeError as error:  # shapes differ
        raise WeightsError(f"{path} does not fit {name!r}: {error}") from error
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or extra:
        raise WeightsError(
            f"{path} does not fit {name!r}: {len(missing)} parameters are missing (such as {missing[:3]}) "
            f"and {len(extra)} are unknown (such as {extra[:3]}); give the state dict of that architecture"
        )
