"""What `dowse run`, `dowse attack` and `dowse audit` have in common: the run itself, and who is told of it."""

import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from dowse.cli.failing import FAILED, INTERRUPTED
from dowse.cli.manner import Manner
from dowse.cli.options import command_line
from dowse.cli.run_table import show_table

if TYPE_CHECKING:
    from dowse.experiment.tables import Experiment
    from dowse.running.engines import Engine
    from dowse.running.progress import Reporter
    from dowse.running.run_under_way import Finished


def execute(
    experiment: "Experiment", manner: Manner, *, rounds: "Sequence[Experiment]" = (), seconds: float | None = None
) -> "list[Finished]":
    """Run an experiment, tell about it, print its table; Ctrl-C ends it after the round with status 130.

    What the target failed on, or no image that could be attacked, is told on standard error, with status 1.

    Args:
        experiment: What to run.
        manner: How.
        rounds: Smaller forms of it that are run first, one after the other.
        seconds: When to stop at the latest; None when all is done.

    Returns:
        What became of the last of these that was run to its end; nothing if there was no time for any.
    """
    from contextlib import closing, nullcontext, redirect_stdout

    import torch

    from dowse.errors import InputError
    from dowse.running.interrupt import interruptible
    from dowse.running.run_experiment import run_experiment
    from dowse.store.events import Stopped

    if manner.no_answers and manner.keep_answers:
        raise InputError("--no-answers logs nothing that --keep-answers could keep: leave one of them out")
    check_device(manner.device, here=manner.engine != "ray")
    share = share_of_rate(manner.rate, manner.engine, manner.workers)
    stages = [one.changed(save=manner.save, rate=share) for one in (*rounds, experiment)]
    finished: list[Finished] = []
    if manner.threads is not None:
        torch.set_num_threads(manner.threads)
    command = command_line()
    with (
        closing(reporter(manner)) as report,
        redirect_stdout(sys.stderr) if manner.json else nullcontext(),  # what a model of one's own prints
        _telling_warnings(manner, report),
        closing(engine_of(manner, report)) as engine,
    ):
        wish = "finishing the round; Ctrl-C again stops at once"
        with interruptible(lambda: report.message(wish)) as interrupt, interrupt.after(seconds):
            try:
                for stage in stages:
                    finished = run_experiment(
                        stage,
                        manner.out,
                        engine,
                        report=report,
                        command=command,
                        log_answers=not manner.no_answers,
                        keep_answers=manner.keep_answers,
                        device=manner.device,
                        interrupt=interrupt,
                    )
            except Stopped:
                if not interrupt.late:
                    report.message(f"stopped; every answer is kept. Go on with: {shlex.join(command)}")
                    raise typer.Exit(INTERRUPTED) from None
                report.message(f"time is over; every answer is kept. Go on with: {shlex.join(command)}")
    if finished and not manner.quiet and not manner.json:
        show_table(finished)
    if trouble := [one.trouble for one in finished if one.trouble is not None]:
        typer.echo("\n".join(f"error: {said}" for said in trouble), err=True)
        raise typer.Exit(FAILED)
    return finished


def check_device(device: str, *, here: bool) -> None:
    """Raise InputError for a device that torch does not know or, if networks are to live here, that is not there."""
    import torch

    from dowse.errors import InputError

    try:
        known = torch.device(device)
        if here:
            torch.zeros(1, device=known).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        cause = str(error).partition("\n")[0]
        raise InputError(f"--device {device} cannot be used on this machine: {cause}; cpu always can") from error


@contextmanager
def _telling_warnings(manner: Manner, report: "Reporter") -> Iterator[None]:
    """Warnings of this process are told like all else; where nothing is told they go to standard error, as ever."""
    from dowse.errors import TargetNote

    def told(message: Warning | str) -> str:
        return str(message) if isinstance(message, TargetNote) else f"warning: {message}"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if manner.quiet else "always", TargetNote)
        if not manner.quiet:
            warnings.showwarning = lambda message, *_: report.message(told(message))
        yield


def share_of_rate(rate: float | None, engine: str | None, workers: int | None) -> float | None:
    """The rows a second that each worker may send, so that all together send no more than the rate."""
    from dowse.errors import InputError
    from dowse.machine.cpu import usable_cores

    if rate is None:
        return None
    if workers is None and engine == "ray":
        raise InputError(f"--rate {rate:g} is shared by all workers: say with --workers how many the engine ray has")
    return rate / (workers or (usable_cores() if engine == "processes" else 1))


def engine_of(manner: Manner, report: "Reporter") -> "Engine":
    """Where the attacks take place."""
    from dowse.running.engines import make_engine

    return make_engine(
        manner.engine,
        workers=manner.workers,
        threads=manner.threads,
        address=manner.address,
        cpus_per_worker=manner.cpus_per_worker,
        gpus_per_worker=manner.gpus_per_worker,
        tell=report.message,
    )


def reporter(manner: Manner) -> "Reporter":
    """Who is told: bars in a terminal, lines elsewhere, JSON, or nobody; TensorBoard and W&B beside it."""
    from rich.console import Console

    from dowse.running.progress import JsonLines, Lines, Reporter, RichBars, Several

    console = Console()
    told: Reporter
    if manner.json:
        told = JsonLines(sys.stdout)
    elif manner.quiet:
        told = Reporter()
    else:
        told = RichBars(console) if console.is_terminal else Lines(sys.stdout)
    beside: list[Reporter] = []
    if manner.tensorboard:
        from dowse.running.tensorboard import TensorBoard

        beside.append(TensorBoard(manner.out / "tensorboard"))
    if manner.wandb:
        from dowse.running.wandb import WandB

        beside.append(WandB(manner.out))
    return Several([told, *beside]) if beside else told
