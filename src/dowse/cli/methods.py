"""`dowse methods`: what attacks there are; `dowse methods NAME`: one of them with its options."""

import inspect
from textwrap import dedent
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from dowse.attacks.adapter import AnyMethod


def methods(
    name: Annotated[str | None, typer.Argument(help="Explain this one; all are listed without.")] = None,
) -> None:
    """List the attacks with what they need and cost, or explain one with its options."""
    from rich.console import Console

    from dowse.attacks.registry import METHODS, find_method
    from dowse.errors import InputError

    console = Console()
    if name is None:
        _print_all(list(METHODS.values()), console)
        return
    try:
        _explain(find_method(name), console)
    except InputError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error


def _print_all(known: "list[type[AnyMethod]]", console: "Console") -> None:
    from rich.table import Table

    table = Table(
        "name", "paper", "surrogate", "norms", "targeted", "queries an iteration",
        caption="Every image costs one query more, for its own scores. `dowse methods NAME` explains one.",
        caption_justify="left",
    )  # fmt: skip
    for column in table.columns:
        column.overflow = "fold"
    for method in known:
        table.add_row(
            method.name, method.paper, _needs(method), ", ".join(method.norms), _yes(method.targeted), method.cost
        )
    console.print(table)


def _explain(method: "type[AnyMethod]", console: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{method.name}[/] · {method.paper}")
    console.print(f"needs a surrogate: {_needs(method)} · norms: {', '.join(method.norms)}", highlight=False)
    other = f" (targeted: {method.targeted_loss})" if method.targeted_loss else ""
    console.print(f"targeted: {_yes(method.targeted)} · loss: {method.loss}{other}", highlight=False)
    console.print(f"queries an iteration: {method.cost}\n", highlight=False)
    console.print(about(method) + "\n", markup=False, highlight=False)
    table = Table("option", "default", "what it is", show_lines=False)
    said = option_docs(method)
    for option, default in method.options().items():
        table.add_row(option, str(default), escape(said.get(option, "")))
    console.print(table)


def _needs(method: "type[AnyMethod]") -> str:
    if method.whitebox:
        return "the target's own gradient"
    return "no, but uses one" if method.uses_surrogate else _yes(method.needs_surrogate)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


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
