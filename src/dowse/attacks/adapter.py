"""The boundary for methods of the user's own: what has only a `flow`, or `init` and `estimate`, is adapted here."""

from typing import Any

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Flow
from dowse.core.method import take_facts
from dowse.errors import InputError
from dowse.estimators.base import Estimator
from dowse.maths.geometry import Ball

AnyMethod = Attack | Estimator[Any]


def as_method(own: object) -> AnyMethod:
    """An attack or estimator as it is; any other object with their methods, wrapped."""
    if isinstance(own, Attack | Estimator):
        return own
    if isinstance(own, type):
        raise InputError(f"method= takes an object, got the class {own.__name__}: write {own.__name__}()")
    return _OwnAttack(own) if _base_of(own, type(own)) is Attack else _OwnEstimator(own)


def as_estimator(own: object) -> Estimator[Any]:
    """An estimator as it is, or wrapped; a whole attack is an InputError."""
    method = as_method(own)
    if not isinstance(method, Estimator):
        raise InputError(f"{method.name} is a whole attack, where an estimator (init, estimate) is expected")
    return method


def as_method_class(own: type[Any]) -> type[AnyMethod]:
    """A class of attacks or estimators as it is; any other with their methods, with defaults for the rest."""
    if issubclass(own, Attack | Estimator):
        return own
    return type(own.__name__, (own, _base_of(own, own)), {"__doc__": own.__doc__, "__module__": own.__module__})


def _base_of(own: object, kind: type[Any]) -> type[AnyMethod]:
    if hasattr(own, "flow"):
        return Attack
    if hasattr(own, "estimate") and hasattr(own, "init"):
        return Estimator
    raise InputError(
        f"method= takes a name, an estimator (init, estimate) or an attack (flow), got {kind.__name__}; "
        "see docs/extending.md"
    )


class _OwnAttack(Attack):
    """An object with a `flow`."""

    def __init__(self, own: Any) -> None:
        self.own, self.name = own, type(own).__name__
        take_facts(self, own)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Any]:
        """The object's own, about x, (*s)."""
        return self.own.flow(x, f, ball, rng)  # type: ignore[no-any-return]

    def check(self, x: Tensor) -> None:
        """The object's own if it has one."""
        if hasattr(self.own, "check"):
            self.own.check(x)


class _OwnEstimator(Estimator[Any]):
    """An object with an `init` and an `estimate`."""

    def __init__(self, own: Any) -> None:
        self.own, self.name = own, type(own).__name__
        self.check_every = getattr(own, "check_every", 1)
        take_facts(self, own)

    def init(self, x: Tensor) -> Any:
        """The object's own, for an image like x, (*s)."""
        return self.own.init(x)

    def estimate(self, state: Any, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, Any]]:
        """The object's own, at x, (*s)."""
        return self.own.estimate(state, x, f, rng)  # type: ignore[no-any-return]

    def default_step(self, ball: Ball) -> float:
        """The object's own if it has one."""
        if hasattr(self.own, "default_step"):
            return float(self.own.default_step(ball))
        return super().default_step(ball)
