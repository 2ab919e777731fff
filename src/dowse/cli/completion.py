"""`dowse completion SHELL`: the script that teaches a shell the commands, their options and the methods."""

from typing import Annotated, Literal

import typer

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell the script is for.")]) -> None:
    """Print what makes the Tab key complete commands, options and methods: eval "$(dowse completion bash)".

    `dowse --install-completion` writes it into the start files of the shell that it is called from.
    """
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="dowse", complete_var="_DOWSE_COMPLETE", shell=shell))


def method_names(incomplete: str) -> list[str]:
    """The built-in methods that begin so."""
    from dowse.cli.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]
