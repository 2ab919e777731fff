"""The methods by name, and any other made ready: a name with options, or an object, becomes an attack."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, replace
from typing import Any

from dowse.attacks import GFCS, PGD, SPSA, ZOO, AutoZOOM, SignHunter, SimBA, SimBAODS, Square, Transfer, WhiteBox
from dowse.attacks.adapter import AnyMethod, as_estimator, as_method
from dowse.attacks.base import Attack
from dowse.core.method import fields_of
from dowse.errors import InputError, nearest
from dowse.estimators import NES, ODSRGF, PRGF, RGF, Averaging, Bandits
from dowse.maths.geometry import Norm

_KINDS: tuple[type[AnyMethod], ...] = (
    RGF, PRGF, Averaging, NES, SPSA, Bandits, ZOO, AutoZOOM, Square, SignHunter, SimBA, SimBAODS, ODSRGF, GFCS,
    Transfer, WhiteBox,
)  # fmt: skip
METHODS: dict[str, type[AnyMethod]] = {kind.name: kind for kind in _KINDS}


@dataclass(frozen=True)
class Resolved:
    """A method made ready.

    Attributes:
        method: The estimator or attack that knows what it is and needs.
        attack: What is done to an image: the method itself, or PGD around an estimator.
    """

    method: AnyMethod
    attack: Attack


def find_method(name: str) -> type[AnyMethod]:
    """The class of a method, or an InputError with the nearest name."""
    if name not in METHODS:
        raise InputError(f"method {name!r} is unknown: {nearest(name, METHODS)}")
    return METHODS[name]


def resolve_method(
    method: str | object, *, norm: Norm, step: float | None, options: Mapping[str, Any], targeted: bool = False
) -> Resolved:
    """Make an attack of a name with options, of an estimator object, or of an object with a `flow` of its own."""
    if isinstance(method, str):
        made = _construct(method, find_method(method), norm, step, options)
    elif options:
        raise InputError(
            f"options {', '.join(sorted(options))} go with a method's name; set them on your {type(method).__name__}"
        )
    else:
        made = as_method(method)
    resolved = _resolved(made, step)
    resolved.method.check_run(norm=norm, targeted=targeted)
    return resolved


def _resolved(made: AnyMethod, step: float | None) -> Resolved:
    """An attack as it is; an estimator inside PGD."""
    if isinstance(made, PGD):
        estimator = as_estimator(made.estimator)
        return Resolved(estimator, replace(made, estimator=estimator))
    return Resolved(made, made if isinstance(made, Attack) else PGD(made, step))


def _construct(
    name: str, kind: type[AnyMethod], norm: Norm, step: float | None, options: Mapping[str, Any]
) -> AnyMethod:
    known = kind.options()
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r}: {nearest(option, known)}")
    by_the_run = {"norm": norm, "step": step}
    given = {one.name: by_the_run[one.name] for one in fields_of(kind) if one.name in by_the_run}
    given |= options
    for option, default in known.items():
        if default is MISSING and option not in given:
            raise InputError(f"option {option!r} of {name} has no default: give it a value")
    return kind(**given)
