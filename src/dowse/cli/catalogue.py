"""What `dowse methods` says of each method, kept in a file so that to list them no torch is imported.

The file is made of the classes: `python -m dowse.cli.catalogue` after a change of a method's options or docstring. A
test compares the two.
"""

import inspect
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dowse.attacks.adapter import AnyMethod

FILE = Path(__file__).with_name("methods.json")


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of a method: its name, its default and what it is, in words."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class About:
    """A method in words.

    Attributes:
        name: What it is called.
        paper: Where it comes from.
        surrogate: Whether it needs one.
        norms: The norms it is defined for.
        targeted: Whether it can aim at a class.
        loss: The loss it runs on.
        targeted_loss: The loss of a targeted run, where that is another.
        cost: Its queries an iteration.
        text: What it does, each paragraph as one line.
        options: Its options.
    """

    name: str
    paper: str
    surrogate: str
    norms: list[str]
    targeted: str
    loss: str
    targeted_loss: str | None
    cost: str
    text: str
    options: list[Option]


def catalogue() -> dict[str, About]:
    """The built-in methods by name, in the order in which they are listed."""
    said = json.loads(FILE.read_text(encoding="utf-8"))
    return {one["name"]: About(**one | {"options": [Option(**option) for option in one["options"]]}) for one in said}


def about_class(method: "type[AnyMethod]") -> About:
    """A method in the words of its class."""
    meanings = option_docs(method)
    return About(
        name=method.name,
        paper=method.paper,
        surrogate=_needs(method),
        norms=list(method.norms),
        targeted=_yes(method.targeted),
        loss=method.loss,
        targeted_loss=method.targeted_loss,
        cost=method.cost,
        text=about(method),
        options=[
            Option(name=name, default=str(default), meaning=meanings.get(name, ""))
            for name, default in method.options().items()
        ],
    )


def as_json() -> str:
    """What the file should hold."""
    from dowse.attacks.registry import METHODS

    said = [asdict(about_class(method)) for method in METHODS.values()]
    return json.dumps(said, indent=1, ensure_ascii=False) + "\n"


def about(kind: type[Any]) -> str:
    """A class's docstring up to its attributes, each paragraph as one line."""
    text = (inspect.getdoc(kind) or "").partition("Attributes:")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


def option_docs(kind: type[Any]) -> dict[str, str]:
    """What the "Attributes:" of a dataclass and of those it inherits from say about each field."""
    said: dict[str, str] = {}
    for ancestor in reversed(kind.__mro__):
        listed = inspect.cleandoc(ancestor.__doc__ or "").partition("Attributes:\n")[2]
        field = ""
        for line in dedent(listed).splitlines():
            if line.startswith(" "):
                said[field] += " " + line.strip()
            elif ": " in line:
                field, _, words = line.partition(": ")
                said[field] = words
    return said


def _needs(method: "type[AnyMethod]") -> str:
    if method.whitebox:
        return "the target's own gradient"
    return "no, but uses one" if method.uses_surrogate else _yes(method.needs_surrogate)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    FILE.write_text(as_json(), encoding="utf-8")
