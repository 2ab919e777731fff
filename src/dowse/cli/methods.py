"""`dowse methods`: what attacks there are; `dowse methods NAME`: one of them with its options."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from dowse.cli.completion import method_names
from dowse.cli.failing import failing_kindly

if TYPE_CHECKING:
    from rich.console import Console

    from dowse.cli.catalogue import About


def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Explain this one, or package.module:Class; all are listed without.", autocompletion=method_names
        ),
    ] = None,
) -> None:
    """List the attacks with what they need and cost, or explain one with its options."""
    from rich.console import Console

    from dowse.cli.catalogue import catalogue

    console = Console()
    with failing_kindly():
        if name is None:
            _print_all(catalogue().values(), console)
        else:
            _explain(_find(name), console)


def _find(name: str) -> "About":
    """A method by its name, or one of the user's own, which alone has to be imported."""
    from dowse.cli.catalogue import about_class, catalogue
    from dowse.errors import InputError, nearest

    if ":" in name:
        from dowse.attacks.registry import find_method

        return about_class(find_method(name))
    known = catalogue()
    if name not in known:
        raise InputError(f"method {name!r} is unknown: {nearest(name, known)} One of your own is package.module:Class.")
    return known[name]


def _print_all(known: "Iterable[About]", console: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        "name", "paper", "surrogate", "norms", "targeted", "queries an iteration",
        caption="Every image costs one query more, for its own scores. `dowse methods NAME` explains one.",
        caption_justify="left",
    )  # fmt: skip
    for column in table.columns:
        column.overflow = "fold"
    for one in known:
        table.add_row(one.name, escape(one.paper), one.surrogate, ", ".join(one.norms), one.targeted, escape(one.cost))
    console.print(table)


def _explain(one: "About", console: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{one.name}[/]" + (f" · {escape(one.paper)}" if one.paper else ""))
    console.print(f"needs a surrogate: {one.surrogate} · norms: {', '.join(one.norms)}", highlight=False)
    other = f" (targeted: {one.targeted_loss})" if one.targeted_loss else ""
    console.print(f"targeted: {one.targeted} · loss: {one.loss}{other}", highlight=False)
    if one.cost:
        console.print(f"queries an iteration: {one.cost}", highlight=False)
    console.print()
    console.print(one.text + "\n", markup=False, highlight=False)
    table = Table("option", "default", "what it is", show_lines=False)
    for option in one.options:
        table.add_row(option.name, option.default, escape(option.meaning))
    console.print(table)
