"""`python -m dowse` is the command line."""

from dowse.cli import app

app(prog_name="dowse")
