"""The networks of a process: targets and surrogates are opened once, and stay open for the runs to come."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from dowse.core.target import Shape, Target, as_target
from dowse.running.instructions import Instructions
from dowse.surrogates.faster import open_surrogate
from dowse.surrogates.surrogate import Surrogate, SurrogateLike, own_size
from dowse.targets import input_shape, input_size, open_target
from dowse.targets.fast import ONNXRUNTIME, Choice, choose_backend, open_fast

KEPT = 4


class Networks:
    """Targets and surrogates by their specs, the last few of them kept open.

    Args:
        live: What is there already and has no spec of its own, by the words that stand for it.
    """

    def __init__(self, live: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.live = live
        self._open: OrderedDict[tuple[object, ...], Any] = OrderedDict()
        self._shapes: dict[str, Shape | None] = {}

    def input_shape(self, spec: str) -> Shape | None:
        """As targets.input_shape; a target that must be opened for it stays open for the run."""
        if spec in self.live:
            return None
        if spec not in self._shapes:
            self._shapes[spec] = input_shape(spec, self._opened)
        return self._shapes[spec]

    def choose_backend(self, spec: str, images: Tensor, rows: int) -> Choice:
        """As fast.choose_backend, for a CPU in single precision; whatever was chosen stays open for the run."""
        choice = choose_backend(spec, images, rows, self._opened(spec))
        if choice.target is not None:
            del self._open[spec,]
            self._kept((spec, "cpu", torch.float32, ONNXRUNTIME), lambda: choice.target)
        return choice

    def _opened(self, spec: str) -> Target:
        """A target that is asked about before its run; `target` finds it open."""
        target: Target = self._kept((spec,), lambda: open_target(spec))
        return target

    def target(self, told: Instructions, like: Tensor) -> Target:
        """The target of a run on images like (C, H, W)."""

        def make() -> Target:
            if told.backend == ONNXRUNTIME:
                return open_fast(told.spec.target, like)
            asked = self._open.pop((told.spec.target,), None)
            return (asked or open_target(self.live.get(told.spec.target, told.spec.target))).to(told.device, told.dtype)

        target: Target = self._kept((told.spec.target, told.device, told.dtype, told.backend), make)
        return target

    def surrogates(self, told: Instructions, side: int) -> list[SurrogateLike]:
        """The surrogates of a run for images of a side, each at its own size; those that are there are as they are."""
        specs = told.spec.surrogate
        return [self.live[spec] if spec in self.live else self._surrogate(spec, told, side) for spec in specs]

    def _surrogate(self, spec: str, told: Instructions, side: int) -> Surrogate:
        key = ("surrogate", spec, told.device, told.dtype)
        return Surrogate(
            self._kept(key, lambda: open_surrogate(spec).to(told.device, told.dtype)),
            size=own_size(told.spec.surrogate_size or input_size(spec), side),
            class_offset=told.spec.class_offset,
            smooth=told.spec.smooth,
        )

    def close(self) -> None:
        """Let go of them; those that hold a connection close it."""
        while self._open:
            as_target(self._open.popitem()[1]).close()

    def _kept(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        """What is open by a key, made now if it is not."""
        if key not in self._open:
            self._open[key] = make()
            while len(self._open) > KEPT:
                as_target(self._open.popitem(last=False)[1]).close()
        self._open.move_to_end(key)
        return self._open[key]
