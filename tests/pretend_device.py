"""A device that is played on a CPU: tensors on it are marked, and what goes there, comes back or waits is counted.

It does what can be told without a GPU: a tensor on it mixed with one that is not is an error, as with CUDA; a transfer
is a transfer; and reading a number of it in Python is a synchronisation. How long any of them takes it cannot tell.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DEVICE = torch.device("cuda", 0)
WAITS = {
    "item", "tolist", "__float__", "__int__", "__bool__", "__index__", "__contains__", "nonzero", "numpy", "__array__",
    "is_nonzero", "equal", "unique", "masked_select", "allclose",
}  # fmt: skip


class There(Tensor):
    """A tensor on the played device."""


class PlayedDevice(TorchFunctionMode):
    """While it is on, `to(DEVICE)` puts tensors there, `cpu()` and `to("cpu")` fetch them.

    Attributes:
        counts: Transfers "to" and "from" it, and "waits": numbers that were read one by one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        there = any(isinstance(one, There) for one in _tensors((args, kwargs)))
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return DEVICE if there else func(*args, **kwargs)
        if name in ("to", "cpu"):
            return self._moved(func, args, kwargs, there)
        if there and name in WAITS:
            self.counts["waits"] += 1
        if there and any(type(one) is Tensor and one.ndim for one in _tensors((args, kwargs))):
            raise RuntimeError(f"{name} of tensors on {DEVICE} and on cpu")
        made = kwargs.get("device") == DEVICE
        if made:
            kwargs["device"] = "cpu"
            self.counts["to"] += name == "tensor"
        return _marked(func(*args, **kwargs), there or made)

    def _moved(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], there: bool) -> Any:
        wanted = [one for one in (*args[1:], *kwargs.values()) if isinstance(one, str | torch.device | Tensor)]
        goes = any(isinstance(one, There) or one == DEVICE for one in wanted)
        comes = func is Tensor.cpu or any(
            not isinstance(one, Tensor) and torch.device(one).type == "cpu" for one in wanted
        )
        plain = tuple(
            one.as_subclass(Tensor) if isinstance(one, There) else "cpu" if one == DEVICE else one for one in args
        )
        moved: Tensor = func(*plain, **{k: "cpu" if one == DEVICE else one for k, one in kwargs.items()})
        self.counts["to"] += goes and not there
        self.counts["from"] += comes and there
        moved = moved.clone() if (goes and not there) or (comes and there) else moved
        return _marked(moved, goes or (there and not comes))


def _tensors(given: Any) -> Iterable[Tensor]:
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, dict):
        yield from _tensors(list(given.values()))
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _tensors(one)


def _marked(found: Any, there: bool) -> Any:
    if isinstance(found, Tensor):
        return found.as_subclass(There if there else Tensor)
    if type(found) in (tuple, list):
        return type(found)(_marked(one, there) for one in found)
    return found
