"""`dowse pack` and `dowse unpack`: what a store has found as a small text file, and such files as a store."""

from pathlib import Path
from typing import Annotated

import typer

from dowse.cli.failing import failing_kindly
from dowse.cli.manner import named_folder
from dowse.cli.options import command_line


def pack(
    folder: Annotated[Path, typer.Argument(help="The folder of the store, or another packed file.")],
    file: Annotated[Path, typer.Argument(help="The file to write, JSON Lines; what is in it already stays in it.")],
) -> None:
    """Write the runs and rows of a store into a small text file, to keep, compare and publish.

    Images, answers and traces stay behind. The same store gives the same bytes. A file that is there grows by what is
    new; where it contradicts the store nothing is written.
    """
    with failing_kindly():
        from dowse.store.pack import pack as packed
        from dowse.wording import plural

        done = packed(folder, file)
        size = f"{file.stat().st_size / 1e3:,.1f} kB"
        typer.echo(f"{file}: {plural(done.runs, 'run')}, {plural(done.rows, 'row')}, {done.new:,} new; {size}")


def unpack(
    files: Annotated[list[Path], typer.Argument(help="Files that `dowse pack` wrote.", metavar="FILE")],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=named_folder, metavar="PATH", help="Folder of the store, new or not.")
    ],
) -> None:
    """Make a store of packed files, or add them to one, so that `dowse run FILE --out` goes on after what they hold.

    All of them are read and checked first. Nothing is written twice, and nothing where they contradict the store.
    """
    with failing_kindly():
        from dowse.store.pack import unpack as unpacked
        from dowse.wording import plural

        done = unpacked(files, out, command_line())
        typer.echo(f"{out}: {plural(done.runs, 'run')}, {plural(done.rows, 'row')}, {done.new:,} new")
        if done.held:
            typer.echo(
                f"left out {plural(done.held, 'image')} that another process attacks now: it writes their rows itself"
            )
