"""What stands after the colon of a defence's prefix: numbers between commas, or options by name."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dowse.errors import InputError, nearest

Number = TypeVar("Number", int, float)


def numbers(name: str, argument: str | None, defaults: Sequence[Number]) -> list[Number]:
    """As many numbers as there are defaults, and of their type; what is missing is taken from them.

    >>> numbers("boundary", "0.5", [0.3, 0.1])
    [0.5, 0.1]
    """
    words = argument.split(",") if argument else []
    found = list(defaults)
    try:
        for place, word in enumerate(words):
            found[place] = type(defaults[place])(word)
    except (ValueError, IndexError):
        example = ",".join(f"{value:g}" for value in defaults)
        raise InputError(
            f"{name}:{argument} is not understood: write {name} or numbers, such as {name}:{example}"
        ) from None
    return found


def options(name: str, argument: str | None, kinds: Mapping[str, type]) -> dict[str, str | int | float]:
    """Options by name, `OPTION=VALUE,OPTION=VALUE`, each of its type; those left out are left out.

    >>> options("blacklight", "account=run,threshold=10", {"account": str, "threshold": int})
    {'account': 'run', 'threshold': 10}
    """
    found: dict[str, str | int | float] = {}
    for word in argument.split(",") if argument else []:
        option, equals, value = word.partition("=")
        if not equals:
            example = next(iter(kinds))
            raise InputError(
                f"{name}:{argument} is not understood: write {name} or options between commas, such as "
                f"{name}:{example}=…; there are {', '.join(kinds)}"
            )
        if option not in kinds:
            raise InputError(f"{name} has no option {option!r}, which must be one of its own: {nearest(option, kinds)}")
        if option in found:
            raise InputError(f"{name}:{argument} says {option} twice: it must be said once")
        try:
            found[option] = kinds[option](value)
        except ValueError:
            raise InputError(f"{name}: {option} must be of type {kinds[option].__name__}, got {value!r}") from None
    return found
