"""A network's last-layer features: the input of its last linear layer, caught by a hook."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn


class LastLayer:
    """Where a network's features are; found by one forward pass and then caught in every later one.

    The last layer that runs is an nn.Linear of one vector an image, and its input is the features; or it is a 1×1
    convolution whose mean over all places is the logits, and the mean of its input is. Elsewhere there are none.

    Args:
        net: From points to logits.
    """

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self._searched = False
        self._layer: nn.Module | None = None
        self._input: Tensor | None = None

    def search(self, points: Tensor, **more: Any) -> None:
        """Find the layer with one of the points, (n, *s), unless that is done; `more` is for the net."""
        if self._searched:
            return
        ran: list[tuple[nn.Module, Tensor, Tensor]] = []

        def ran_now(layer: nn.Module, given: tuple[Any, ...], made: Any) -> None:
            ran[:] = [(layer, given[0], made)]

        layers = [layer for layer in self.net.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
        handles = [layer.register_forward_hook(ran_now) for layer in layers]
        try:
            with torch.no_grad():
                logits = self.net(points, **more)
        finally:
            for handle in handles:
                handle.remove()
        self._searched = True
        if ran:
            layer, given, made = ran[0]
            self._layer = layer if _is_head(layer, given, made, logits) else None

    def shared_by(self, net: nn.Module) -> "LastLayer":
        """The same layer in another network that it is a part of; search for it first."""
        other = LastLayer(net)
        other._searched, other._layer = self._searched, self._layer
        return other

    def catching(self) -> AbstractContextManager[Any]:
        """While this is open, the next forward pass leaves its features behind."""
        self._input = None
        if self._layer is None:
            return _Nothing()
        return self._layer.register_forward_pre_hook(self._catch)

    def features(self) -> Tensor | None:
        """The features of the pass just made, (n, F), in its graph; None where the net has none."""
        caught, self._input = self._input, None
        return caught if caught is None or caught.ndim == 2 else caught.mean((2, 3))

    def _catch(self, layer: nn.Module, given: tuple[Any, ...]) -> None:
        self._input = given[0]


class _Nothing(AbstractContextManager[None]):
    def __exit__(self, *_: object) -> None:
        return None


def _is_head(layer: nn.Module, given: Tensor, made: Tensor, logits: Tensor) -> bool:
    if isinstance(layer, nn.Linear):
        return given.ndim == 2 and len(given) == len(logits)
    whole = isinstance(layer, nn.Conv2d) and set(layer.kernel_size) == set(layer.stride) == {1} and made.ndim == 4
    pooled = made.mean((2, 3)) if whole else made
    return pooled.shape == logits.shape and torch.allclose(pooled, logits, rtol=1e-3, atol=1e-4)
