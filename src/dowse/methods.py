"""The methods by name: what each is, where it comes from, what it needs and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dowse.attacks import PGD, Transfer, WhiteBox
from dowse.drive import Attack
from dowse.errors import InputError, nearest
from dowse.estimators import PRGF, RGF, Averaging
from dowse.geometry import Norm

PAPER = "Cheng et al. 2019 (NeurIPS)"


@dataclass(frozen=True)
class Method:
    """A named method.

    Attributes:
        name: Its word in `method=` and on the command line.
        kind: The frozen dataclass of its parameters: an estimator, or a whole attack.
        paper: Where it comes from.
        needs_surrogate: Whether it asks for transfer gradients.
        cost: Its queries per iteration, in words.
        whitebox: Whether it needs the target's own gradient.
        norms: The norms it is defined for.
        targeted: Whether it can aim at a class.
    """

    name: str
    kind: type[Any]
    paper: str
    needs_surrogate: bool
    cost: str
    whitebox: bool = False
    norms: tuple[Norm, ...] = ("l2", "linf")
    targeted: bool = True

    @property
    def defaults(self) -> dict[str, Any]:
        """Its options and their defaults."""
        return {field.name: field.default for field in fields(self.kind)}


METHODS = {
    method.name: method
    for method in (
        Method("rgf", RGF, PAPER + ", Eq. (5)", False, "q+1"),
        Method(
            "prgf",
            PRGF,
            PAPER + ", Algorithm 1",
            True,
            "λ*: q+2, or 2 where λ*=1, plus S or 2S per period; λ: q+1",
        ),
        Method(
            "averaging",
            Averaging,
            PAPER + ", Algorithm 2",
            True,
            "μ*: q+2, or 2 where μ*≥c, plus S or 2S; μ: q+2",
        ),
        Method("transfer", Transfer, "PGD on the surrogate, no feedback", True, "1 in all"),
        Method("whitebox", WhiteBox, "Madry et al. 2018, Eq. (3)", False, "1", whitebox=True),
    )
}


def find_method(name: str) -> Method:
    """The method of a name, or an InputError with the nearest one."""
    if name not in METHODS:
        raise InputError(f"method {name!r} is unknown: {nearest(name, METHODS)}")
    return METHODS[name]


@dataclass(frozen=True)
class Resolved:
    """A method made ready: its name, its attack, and what it needs of the world."""

    name: str
    attack: Attack
    needs_surrogate: bool = False
    whitebox: bool = False


def resolve_method(method: str | object, *, norm: Norm, step: float | None, options: Mapping[str, Any]) -> Resolved:
    """Make an attack of a name with options, of an estimator object, or of an object with a `flow` of its own."""
    if isinstance(method, str):
        found = find_method(method)
        made = _construct(found, norm, step, options)
        return Resolved(found.name, as_attack(made, step), found.needs_surrogate, found.whitebox)
    if options:
        raise InputError(
            f"options {', '.join(sorted(options))} go with a method's name; set them on your {type(method).__name__}"
        )
    return Resolved(getattr(method, "name", type(method).__name__), as_attack(method, step))


def as_attack(made: Any, step: float | None) -> Attack:
    """An attack as it is; an estimator inside PGD."""
    if hasattr(made, "flow"):
        attack: Attack = made
        return attack
    if hasattr(made, "estimate") and hasattr(made, "init"):
        return PGD(made, step)
    raise InputError(
        f"method= takes a name, an estimator (init, estimate) or an attack (flow), got {type(made).__name__}; "
        "see docs/extending.md"
    )


def _construct(method: Method, norm: Norm, step: float | None, options: Mapping[str, Any]) -> Any:
    known = method.defaults
    for name in options:
        if name not in known:
            raise InputError(f"{method.name} has no option {name!r}: {nearest(name, known)}")
    given = {"norm": norm, "step": step}
    return method.kind(**{name: given[name] for name in given if name in known}, **options)
