"""What stands after the colon of a defence's prefix: numbers between commas."""

from collections.abc import Sequence
from typing import TypeVar

from dowse.errors import InputError

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
