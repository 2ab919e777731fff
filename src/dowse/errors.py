"""Errors that give cause and remedy, and the small checks that raise them."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """What the caller passed cannot be used; the message says what was got, what was expected and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint naming the known word nearest to `name`, or all of them."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}."


def choose(what: str, value: str, allowed: Iterable[str]) -> None:
    """Raise InputError unless value is one of the allowed words."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise InputError(f"{what}={value!r} is unknown: {nearest(str(value), allowed)}")


def positive(**values: float) -> None:
    """Raise InputError for any named value that is not above zero."""
    for name, value in values.items():
        if not value > 0:
            raise InputError(f"{name} must be above 0, got {value!r}")


def fraction(**values: float | None) -> None:
    """Raise InputError for any named value outside [0, 1]; None is no value."""
    for name, value in values.items():
        if value is not None and not 0 <= value <= 1:
            raise InputError(f"{name} must lie in [0, 1], got {value!r}")
