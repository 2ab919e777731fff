"""The command line: one module a command, gathered here."""

from typing import Annotated

import typer

from dowse.cli.attack import EXTRA, attack
from dowse.cli.audit import audit
from dowse.cli.check import check
from dowse.cli.compare import compare
from dowse.cli.completion import completion
from dowse.cli.demo import demo
from dowse.cli.export import export
from dowse.cli.figure import figure
from dowse.cli.methods import methods
from dowse.cli.pack import pack, unpack
from dowse.cli.report import report
from dowse.cli.rows import rows
from dowse.cli.run import run
from dowse.cli.status import status
from dowse.cli.train_denoiser import train_denoiser

app = typer.Typer(
    name="dowse",
    help="Measure how few queries it takes to fool an image classifier that shows nothing but its scores.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        import dowse

        typer.echo(dowse.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Measure how few queries it takes to fool an image classifier that shows nothing but its scores."""


app.command(context_settings=EXTRA)(attack)
app.command()(audit)
app.command()(check)
app.command()(compare)
app.command()(completion)
app.command()(demo)
app.command()(export)
app.command()(figure)
app.command()(methods)
app.command()(pack)
app.command()(report)
app.command()(rows)
app.command()(run)
app.command()(status)
app.command()(train_denoiser)
app.command()(unpack)
