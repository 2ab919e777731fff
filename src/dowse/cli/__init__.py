"""The command line: one module a command, gathered here."""

from typing import Annotated

import typer

from dowse.cli.demo import demo

app = typer.Typer(
    name="dowse",
    help="Measure how few queries it takes to fool an image classifier that shows nothing but its scores.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("dowse"))
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Measure how few queries it takes to fool an image classifier that shows nothing but its scores."""


app.command()(demo)
