"""`dowse run`: run the experiment that a TOML file describes, or go on with it."""

from pathlib import Path
from typing import Annotated

import typer

from dowse.cli import running
from dowse.cli.failing import failing_kindly


def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file; docs/experiments.md explains it.")],
    out: running.Out = Path("out"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be run, and for how long.")] = False,
    images: Annotated[int | None, typer.Option(min=1, help="Cut every run down to so many images.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Another budget than the file's.")] = None,
    rate: running.Rate = None,
    save: running.Save = None,
    engine: running.Engine = None,
    workers: running.Workers = None,
    address: running.Address = None,
    cpus_per_worker: running.CpusPerWorker = None,
    gpus_per_worker: running.GpusPerWorker = None,
    quiet: running.Quiet = False,
    json: running.Json = False,
    no_answers: running.NoAnswers = False,
    keep_answers: running.KeepAnswers = False,
    device: running.Device = "cpu",
    threads: running.Threads = None,
    tensorboard: running.Board = False,
) -> None:
    """Run an experiment. The same command goes on where it was stopped or killed; nothing is paid for twice."""
    from dowse.machine.cpu import ensure_fast_malloc

    ensure_fast_malloc()
    with failing_kindly():
        from dowse.experiment.file import load_experiment

        experiment = load_experiment(file).changed(images=images, budget=budget, save=save)
        if dry_run:
            from dowse.cli.dryrun import show_plan

            show_plan(experiment.changed(rate=rate), out, as_json=json)
            return
        experiment = experiment.changed(rate=running.share_of_rate(rate, engine, workers))
        manner = running.Manner(
            out=out, engine=engine, workers=workers, address=address, cpus_per_worker=cpus_per_worker,
            gpus_per_worker=gpus_per_worker, quiet=quiet, json=json, no_answers=no_answers, keep_answers=keep_answers,
            device=device, threads=threads, tensorboard=tensorboard,
        )  # fmt: skip
        running.execute(experiment, manner)
