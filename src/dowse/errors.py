"""Errors and warnings that give cause and remedy, and the small checks that raise them."""

import math
import sys
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeGuard


class InputError(ValueError):
    """What the caller passed cannot be used; the message says what was got, what was expected and what to do."""


class TargetFailedError(RuntimeError):
    """The target fails, so that nothing can be said about it; the message gives the first cause.

    Attributes:
        outcomes: Of `dowse.attack`: what became of each image, its queries and its cause among it.
    """

    outcomes: Sequence[Any] = ()


class WorkerFailedError(RuntimeError):
    """Workers fail again and again; what was answered is kept, and the message gives the cause."""


class TargetWarning(UserWarning):
    """A target that looks wrong: a run goes on, but what it finds may not be about the model that was meant."""


class SurrogateWarning(UserWarning):
    """A surrogate that looks wrong: a run goes on, but its gradients may not be those that were meant."""


class BudgetWarning(UserWarning):
    """A budget with which a method cannot succeed: that nothing is fooled says nothing about the target."""


class TargetNote(UserWarning):
    """How a model takes its images and answers, where that was found out and not said: nothing is wrong."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn of something at the line of the caller's that came to this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "dowse":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def in_words(error: BaseException) -> str:
    """What went wrong: the kind of an error and what it says."""
    return f"{type(error).__name__}: {error}"


def in_a_line(error: BaseException, letters: int | None = None) -> str:
    """As `in_words`, the first line of what it says, or so many letters of that."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:letters]}"


def nearest(name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """A hint naming the known word nearest to `name`, which may be one that is known elsewhere too, or all known."""
    known = sorted(known)
    close = get_close_matches(name, dict.fromkeys([*known, *also]), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}."


def choose(what: str, value: str, allowed: Iterable[str]) -> None:
    """Raise InputError unless value is one of the allowed words."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise InputError(f"{what}={value!r} is unknown: {nearest(str(value), allowed)}")


def positive(**values: object) -> None:
    """Raise InputError for any named value that is not a finite number above zero."""
    for name, value in values.items():
        if not (_is_number(value, Real) and 0 < value < math.inf):  # type: ignore[operator]
            raise InputError(f"{name} must be a finite number above 0, got {value!r}")


def positive_or_none(**values: object) -> None:
    """Raise InputError for any named value that is neither None nor a finite number above zero."""
    positive(**{name: value for name, value in values.items() if value is not None})


def count(**values: object) -> None:
    """Raise InputError for any named value that is not a whole number of at least 1."""
    for name, value in values.items():
        if not is_count(value):
            raise InputError(f"{name} counts and must be a whole number of at least 1, got {value!r}")


def fraction(**values: object) -> None:
    """Raise InputError for any named value that is not a number in [0, 1]; None is no value."""
    for name, value in values.items():
        if value is not None and not (_is_number(value, Real) and 0 <= value <= 1):  # type: ignore[operator]
            raise InputError(f"{name} must lie in [0, 1], got {value!r}")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, numpy's among them."""
    return _is_number(value, Integral)


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number of at least 1."""
    return is_whole(value) and value >= 1


def _is_number(value: object, kind: type) -> bool:
    """Whether a value is a number of the kind; True and False are none."""
    return isinstance(value, kind) and not isinstance(value, bool)
