"""`dowse run`: run the experiment that a TOML file describes, or go on with it."""

from pathlib import Path
from typing import Annotated

import typer

from dowse.cli.execute import execute
from dowse.cli.failing import computing
from dowse.cli.manner import Manner
from dowse.cli.options import DryRun, group_of, taking, whole


@taking(manner=group_of(Manner))
def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file; docs/experiments.md explains it.")],
    manner: Manner,
    dry_run: DryRun = False,
    name: Annotated[
        str | None, typer.Option(help="What the only target is called in tables and in the report.")
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="With --dry-run: time targets that are not on this machine too, by asking.")
    ] = False,
    images: Annotated[int | None, typer.Option(min=1, help="Cut every run down to so many images.")] = None,
    size: Annotated[str | None, typer.Option(help="Another size of the images: a side, or HEIGHTxWIDTH.")] = None,
    channels: Annotated[int | None, typer.Option(min=1, max=3, help="1 for grey images, 3 for RGB.")] = None,
    budget: Annotated[
        int | None, typer.Option(parser=whole, metavar="INTEGER", help="Another budget than the file's.")
    ] = None,
) -> None:
    """Run an experiment. The same command goes on where it was stopped or killed; nothing is paid for twice.

    An experiment can run code, that of the factories and methods it names: read one that is not your own first.
    """
    with computing():
        from dowse.errors import InputError
        from dowse.experiment.file import load_experiment

        experiment = load_experiment(file).changed(
            images=images, budget=budget, target_name=name, size=size, channels=channels
        )
        if probe and not dry_run:
            raise InputError("--probe says what --dry-run may ask: a run asks anyway, leave it out")
        if dry_run:
            from dowse.cli.dryrun import show_plan

            show_plan(experiment.changed(rate=manner.rate), manner.out, as_json=manner.json, probe=probe)
        else:
            execute(experiment, manner)
