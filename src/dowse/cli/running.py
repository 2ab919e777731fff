"""What `dowse run` and `dowse attack` have in common: the options of a run, and the run itself."""

import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dowse.cli.failing import FAILED, INTERRUPTED
from dowse.cli.run_table import show_table

if TYPE_CHECKING:
    from dowse.experiment.file import Experiment
    from dowse.running.engines import Engine
    from dowse.running.progress import Reporter
    from dowse.running.run_under_way import Finished

PANEL = "How it runs"


def _option(*flags: str, **more: Any) -> Any:
    return typer.Option(*flags, rich_help_panel=PANEL, **more)


def _trusted(modules: list[str] | None) -> list[str] | None:
    """Trust these modules at once: an experiment may name one of them for a method."""
    from dowse.machine.importing import is_there, trust

    for module in modules or ():
        if not is_there(module):
            raise typer.BadParameter(f"no module {module!r} is here: run from its folder, or put it on PYTHONPATH")
    trust(modules or ())
    return modules


def folder(text: str | Path) -> Path:
    """A folder that is named; "" would be the working directory, and comes of a variable that is not set.

    A default comes here too, and is a Path already.
    """
    if not str(text).strip():
        raise typer.BadParameter('a folder needs a name, got ""; say . for the one that you are in')
    return Path(text)


def worker_count(text: str | int) -> int:
    """How many workers are meant: a number, or "auto", which is one for each core that this process may use."""
    from dowse.machine.cpu import usable_cores

    if str(text).strip() == "auto":
        return usable_cores()
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"{text!r} is neither auto nor a whole number of at least 1")
    return number


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How to run an experiment; each field is an option of `dowse run` and of `dowse attack`."""

    out: Annotated[
        Path,
        _option("--out", "-o", parser=folder, metavar="PATH", help="Folder of the store; the same folder goes on."),
    ] = Path("out")
    save: Annotated[str | None, _option(help="Adversarial images: safetensors, png (asked about again), none.")] = None
    rate: Annotated[
        float | None,
        _option(help="Http targets: the most rows a second of all workers together, retries included."),
    ] = None
    engine: Annotated[
        str | None,
        _option(help="Where the attacks take place: local, processes or ray; local, or processes with -j 2."),
    ] = None
    workers: Annotated[
        int | None,
        _option(
            "--workers",
            "-j",
            parser=worker_count,
            metavar="N|auto",
            help="How many workers, auto for one a core; by default as many as there is room for.",
        ),
    ] = None
    address: Annotated[str | None, _option(help="Ray: a cluster's address; left out, Ray runs on this machine.")] = None
    cpus_per_worker: Annotated[float | None, _option(help="Ray: CPUs that a worker reserves; 1 by default.")] = None
    gpus_per_worker: Annotated[float | None, _option(help="Ray: GPUs that a worker reserves, 0.5 for a half.")] = None
    device: Annotated[str, _option(help="Where torch networks live: cpu, cuda, …")] = "cpu"
    trust: Annotated[
        list[str] | None,
        _option(
            help="A module that torch:MODULE:FACTORY and methods of your own may come from, though it lives neither "
            "below the working directory nor in an installed distribution. It runs its code: look at it first.",
            callback=lambda given: _trusted(given),
        ),
    ] = None
    threads: Annotated[
        int | None,
        _option(min=1, help="Torch threads of each worker; by default one, or one a core with engine local."),
    ] = None
    no_answers: Annotated[bool, _option("--no-answers", help="Log no answers; an interrupted image starts anew.")] = (
        False
    )
    keep_answers: Annotated[bool, _option("--keep-answers", help="Keep the log of images that ended for good too.")] = (
        False
    )
    quiet: Annotated[bool, _option("--quiet", help="Say nothing but errors.")] = False
    json: Annotated[bool, _option("--json", help="One JSON event a line on standard output.")] = False
    tensorboard: Annotated[bool, _option("--tensorboard", help="Log for TensorBoard too, into OUT/tensorboard.")] = (
        False
    )
    wandb: Annotated[
        bool, _option("--wandb", help="Log to Weights & Biases too; with WANDB_MODE=offline into OUT/wandb alone.")
    ] = False


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
    from contextlib import closing

    import torch

    from dowse.errors import InputError
    from dowse.running.interrupt import interruptible
    from dowse.running.run_experiment import run_experiment
    from dowse.store.events import Stopped
    from dowse.wording import without_password

    if manner.no_answers and manner.keep_answers:
        raise InputError("--no-answers logs nothing that --keep-answers could keep: leave one of them out")
    check_device(manner.device, here=manner.engine != "ray")
    share = share_of_rate(manner.rate, manner.engine, manner.workers)
    stages = [one.changed(save=manner.save, rate=share) for one in (*rounds, experiment)]
    finished: list[Finished] = []
    if manner.threads is not None:
        torch.set_num_threads(manner.threads)
    command = ["dowse", *map(without_password, sys.argv[1:])]
    with (
        closing(reporter(manner)) as report,
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
