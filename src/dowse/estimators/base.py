"""What every estimator is: frozen hyper-parameters, a state passed in and returned, a conversation in between."""

from typing import Generic, TypeVar

import torch
from torch import Tensor

from dowse.core.flow import Flow
from dowse.core.method import Method
from dowse.maths import geometry
from dowse.maths.geometry import Ball

S = TypeVar("S")


class Estimator(Method, Generic[S]):
    """Estimates ∇f at an iterate from queries; PGD, Eq. (3), makes an attack of it.

    Derive a frozen dataclass of it, write `init` and `estimate`, and set the facts of `Method` that are otherwise.

    One whose `estimate` does not read f may have an option `check_every`: PGD then asks about every so many iterates
    only, and f is that of the last one asked about.
    """

    check_every = 1

    def init(self, x: Tensor) -> S:
        """The state before the first iterate, for an image like x, (*s); may raise InputError, before any query."""
        raise NotImplementedError(f"{type(self).__name__} has no init(x)")

    def estimate(self, state: S, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, S]]:
        """Converse about ∇f at x, (*s), where f(x) is known; returns the estimate ĝ, (*s), and the new state."""
        raise NotImplementedError(f"{type(self).__name__} has no estimate(state, x, f, rng)")

    def default_step(self, ball: Ball) -> float:
        """η of Eq. (3) in a ball where the caller says none: the paper's for its norm."""
        return geometry.default_step(ball)

    def check(self, x: Tensor) -> None:
        """Raise InputError for an image like x, (*s), that `init` refuses."""
        self.init(x)
