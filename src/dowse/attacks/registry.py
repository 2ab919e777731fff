"""The methods by name, and any other made ready: what a run's settings say becomes an attack."""

from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from functools import cache
from typing import Any

from dowse.attacks import (
    BASES,
    GFCS,
    PBO,
    PGD,
    SPSA,
    ZOO,
    AutoZOOM,
    Dowse,
    SignHunter,
    SimBA,
    SimBAODS,
    Square,
    Transfer,
    WhiteBox,
)
from dowse.attacks.adapter import AnyMethod, as_method, as_method_class
from dowse.attacks.base import Attack
from dowse.core.method import fields_of
from dowse.errors import InputError, choose, nearest
from dowse.estimators import NES, ODSRGF, PRGF, RGF, Averaging, Bandits, PRGFSpan
from dowse.machine.importing import imported
from dowse.maths.grid import grid_options
from dowse.settings import AttackSettings

_KINDS: tuple[type[AnyMethod], ...] = (
    Dowse, RGF, PRGF, Averaging, NES, SPSA, Bandits, ZOO, AutoZOOM, Square, SignHunter, SimBA, SimBAODS, ODSRGF, GFCS,
    BASES, PBO, PRGFSpan, Transfer, WhiteBox,
)  # fmt: skip
METHODS: dict[str, type[AnyMethod]] = {kind.name: kind for kind in _KINDS}


def find_method(name: str) -> type[AnyMethod]:
    """The class of a method by its name, or by "package.module:Class"; InputError with cause and remedy if none is."""
    if ":" in name:
        return _named_class(name)
    if name not in METHODS:
        raise InputError(
            f"method {name!r} is unknown: {nearest(name, METHODS)} One of your own is package.module:Class."
        )
    return METHODS[name]


@cache
def _named_class(name: str) -> type[AnyMethod]:
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise InputError(f"method {name!r} names no class: write package.module:Class")
    kind = imported(module, attribute)
    if not isinstance(kind, type):
        raise InputError(f"method {name!r} is a {type(kind).__name__}, not a class: name a class of attacks")
    return as_method_class(kind)


def default_options(kind: type[AnyMethod], *, quantize: bool) -> dict[str, Any]:
    """A method's options and their defaults, on the 8-bit grid or off it."""
    defaults = kind.options()
    return defaults | (grid_options(defaults) if quantize else {})


def without_preset(kind: type[AnyMethod], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with those that `preset` stands for in its place; what is said beside it wins."""
    given = dict(options)
    if "preset" not in given:
        return given
    preset = given.pop("preset")
    if not kind.presets:
        raise InputError(f"{kind.name} has no presets: leave preset={preset!r} out")
    choose("preset", preset, kind.presets)
    return dict(kind.presets[preset]) | given


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
    options = without_preset(kind, settings.options)
    for option in options:
        if option not in known:
            raise InputError(f"{kind.name} has no option {option!r}: {nearest(option, known, vars(settings))}")
    by_the_run = {"norm": settings.norm} | ({} if settings.step is None else {"step": settings.step})
    given = known | {one.name: by_the_run[one.name] for one in fields_of(kind) if one.name in by_the_run}
    given |= options
    for option, value in given.items():
        if value is MISSING:
            raise InputError(f"option {option!r} of {kind.name} has no default: give it a value")
    if given or is_dataclass(kind):
        return kind(**given)
    try:
        return kind()
    except TypeError as error:
        raise InputError(f"cannot make {error}: write it as a dataclass, whose fields are its options") from error
