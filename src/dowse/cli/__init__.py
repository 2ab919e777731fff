"""The command line: one module a command, gathered here."""

import typer

app = typer.Typer(
    name="dowse",
    help="Measure how few queries it takes to fool an image classifier that shows nothing but its scores.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Measure how few queries it takes to fool an image classifier that shows nothing but its scores."""
