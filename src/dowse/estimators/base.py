"""What every estimator is: frozen hyper-parameters, a state passed in and returned, a conversation in between."""

from typing import Protocol, TypeVar

import torch
from torch import Tensor

from dowse.core.flow import Flow

S = TypeVar("S")


class Estimator(Protocol[S]):
    """Estimates ∇f at an iterate from queries."""

    def init(self, x: Tensor) -> S:
        """The state before the first iterate, for an image like x, (*s)."""
        ...

    def estimate(self, state: S, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, S]]:
        """Converse about ∇f at x, (*s), where f(x) is known; returns the estimate ĝ, (*s), and the new state."""
        ...
