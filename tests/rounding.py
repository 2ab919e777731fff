"""Another processor, played: matrix products and convolutions whose last bits depend on the rows beside.

A processor's kernel sums in an order of its own, and that order may change with the number of rows, with the place of a
row among them, with where an operand lies in memory and with the number of threads. With `DOWSE_TEST_ROUNDING` set,
every product gets noise of a few units in the last place that depends on just these. The noise is the same in every
process: the same call always has the same answer, as on a real machine, and nothing else about a call can be relied on.

All else stays as it is: elementwise operations and reductions along a row have no part in this, and are the first of
the two grounds that docs/testing.md tells of.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

VARIABLE = "DOWSE_TEST_ROUNDING"
ULPS = 4.0  # the most that is added, in units of the last place of the sum of all summands' magnitudes
PRODUCTS = (
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "convolution", "convolution_backward",
)  # fmt: skip
SELECT = torch._C.DispatchKey.BackendSelect  # below autograd, above the kernels, and asked in every thread
_played: torch.library.Library | None = None


def play_if_asked() -> None:
    """Play another processor from now on if the environment says so; its value is that processor's number."""
    number = int(os.environ.get(VARIABLE) or 0)
    if number and _played is None:
        _play(number, ULPS)


@contextmanager
def another_processor(number: int = 1, ulps: float = ULPS) -> Iterator[None]:
    """Play another processor for a while, if none is played already."""
    global _played
    if _played is not None:
        yield
        return
    _play(number, ulps)
    try:
        yield
    finally:
        assert _played is not None
        _played._destroy()
        _played = None


def _play(number: int, ulps: float) -> None:
    global _played
    _played = torch.library.Library("aten", "IMPL")
    for name in PRODUCTS:
        operator = getattr(torch.ops.aten, name).default
        _played.impl(operator, _perturbed(operator, number, ulps), SELECT.name, with_keyset=True)


def _perturbed(operator: Any, number: int, ulps: float) -> Any:
    def product(keys: Any, *arguments: Any, **more: Any) -> Any:
        keys = keys.remove(SELECT)
        exact = operator.redispatch(keys, *arguments, **more)
        if any(isinstance(a, Tensor) and a.device.type != "cpu" for a in arguments):
            return exact  # a tracer's tensors, which have no numbers
        sizes = operator.redispatch(keys, *map(_magnitude, arguments), **{k: _magnitude(v) for k, v in more.items()})
        call = number, operator.name(), [_seen(a) for a in arguments], torch.get_num_threads()
        rng = torch.Generator().manual_seed(crc32(repr(call).encode()))
        if isinstance(exact, Tensor):
            return _noisy(exact, sizes, ulps, rng)
        return tuple(_noisy(part, size, ulps, rng) for part, size in zip(exact, sizes, strict=True))

    return product


def _magnitude(argument: Any) -> Any:
    """A product of these is the sum of the summands' magnitudes, in which rounding errors are measured."""
    if isinstance(argument, Tensor):
        return argument.abs() if argument.is_floating_point() else argument
    return abs(argument) if isinstance(argument, float) else argument


def _seen(argument: Any) -> Any:
    """What a kernel may choose its order of summation by."""
    if isinstance(argument, Tensor):
        return tuple(argument.shape), argument.stride(), str(argument.dtype), argument.data_ptr() % 64
    return argument


def _noisy(exact: Tensor | None, sizes: Tensor | None, ulps: float, rng: torch.Generator) -> Tensor | None:
    if exact is None or sizes is None or not exact.is_floating_point():
        return exact
    noise = 2 * torch.rand(exact.shape, generator=rng, dtype=exact.dtype) - 1
    return exact + ulps * torch.finfo(exact.dtype).eps * sizes.abs() * noise
