"""The methods by name, and any other made ready: what a run's settings say becomes an attack."""

from dataclasses import MISSING
from typing import Any

from dowse.attacks import GFCS, PGD, SPSA, ZOO, AutoZOOM, SignHunter, SimBA, SimBAODS, Square, Transfer, WhiteBox
from dowse.attacks.adapter import AnyMethod, as_method
from dowse.attacks.base import Attack
from dowse.core.method import fields_of
from dowse.errors import InputError, nearest
from dowse.estimators import NES, ODSRGF, PRGF, RGF, Averaging, Bandits
from dowse.maths.grid import grid_options
from dowse.settings import AttackSettings

_KINDS: tuple[type[AnyMethod], ...] = (
    RGF, PRGF, Averaging, NES, SPSA, Bandits, ZOO, AutoZOOM, Square, SignHunter, SimBA, SimBAODS, ODSRGF, GFCS,
    Transfer, WhiteBox,
)  # fmt: skip
METHODS: dict[str, type[AnyMethod]] = {kind.name: kind for kind in _KINDS}


def find_method(name: str) -> type[AnyMethod]:
    """The class of a method, or an InputError with the nearest name."""
    if name not in METHODS:
        raise InputError(f"method {name!r} is unknown: {nearest(name, METHODS)}")
    return METHODS[name]


def default_options(kind: type[AnyMethod], *, quantize: bool) -> dict[str, Any]:
    """A method's options and their defaults, on the 8-bit grid or off it."""
    defaults = kind.options()
    return defaults | (grid_options(defaults) if quantize else {})


def resolve_method(settings: AttackSettings) -> Attack:
    """Make an attack of a name with options, of an estimator object, or of an object with a `flow` of its own."""
    if isinstance(settings.method, str):
        made = _construct(find_method(settings.method), settings)
    elif settings.options:
        raise InputError(
            f"options {', '.join(sorted(settings.options))} go with a method's name; "
            f"set them on your {type(settings.method).__name__}"
        )
    else:
        made = as_method(settings.method)
    attack = made if isinstance(made, Attack) else PGD(made, settings.step)
    attack.check_run(norm=settings.norm, targeted=settings.targeted)
    return attack


def _construct(kind: type[AnyMethod], settings: AttackSettings) -> AnyMethod:
    known = default_options(kind, quantize=settings.quantize)
    for option in settings.options:
        if option not in known:
            raise InputError(f"{kind.name} has no option {option!r}: {nearest(option, known)}")
    by_the_run = {"norm": settings.norm} | ({} if settings.step is None else {"step": settings.step})
    given = known | {one.name: by_the_run[one.name] for one in fields_of(kind) if one.name in by_the_run}
    given |= settings.options
    for option, value in given.items():
        if value is MISSING:
            raise InputError(f"option {option!r} of {kind.name} has no default: give it a value")
    return kind(**given)
