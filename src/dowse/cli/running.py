"""What `dowse run` and `dowse attack` have in common: a run told about on the terminal, and its table at the end."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dowse.cli.failing import INTERRUPTED

if TYPE_CHECKING:
    from rich.console import Console

    from dowse.experiment.file import Experiment
    from dowse.running.engines import Engine as AnyEngine
    from dowse.running.progress import Reporter
    from dowse.running.run_under_way import Finished

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the store; the same folder goes on.")]
Engine = Annotated[
    str | None,
    typer.Option(help="Where the attacks take place: local, processes or ray; local, or processes with -j 2."),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", "-j", min=1, help="How many workers; by default as many as there is room for."),
]
Address = Annotated[str | None, typer.Option(help="Ray: a cluster's address; left out, Ray runs on this machine.")]
CpusPerWorker = Annotated[float | None, typer.Option(help="Ray: CPUs that a worker reserves; 1 by default.")]
GpusPerWorker = Annotated[float | None, typer.Option(help="Ray: GPUs that a worker reserves, 0.5 for a half.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON event a line on standard output.")]
NoAnswers = Annotated[bool, typer.Option("--no-answers", help="Log no answers; an interrupted image starts anew.")]
KeepAnswers = Annotated[bool, typer.Option("--keep-answers", help="Keep the log of images that ended for good too.")]
Save = Annotated[str | None, typer.Option(help="Adversarial images: safetensors, png (asked about again), none.")]
Device = Annotated[str, typer.Option(help="Where torch networks live: cpu, cuda, …")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Torch threads of each worker; by default one, or one a core with engine local."),
]
Rate = Annotated[
    float | None, typer.Option(help="Http targets: the most rows a second of all workers together, retries included.")
]
Board = Annotated[bool, typer.Option("--tensorboard", help="Log for TensorBoard too, into OUT/tensorboard.")]


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How to run, as the options of the command line say it."""

    out: Path
    engine: str | None = None
    workers: int | None = None
    address: str | None = None
    cpus_per_worker: float | None = None
    gpus_per_worker: float | None = None
    quiet: bool = False
    json: bool = False
    no_answers: bool = False
    keep_answers: bool = False
    device: str = "cpu"
    threads: int | None = None
    tensorboard: bool = False


def execute(experiment: "Experiment", manner: Manner) -> "list[Finished]":
    """Run an experiment, tell about it, print its table; Ctrl-C ends it after the round with status 130."""
    from contextlib import closing

    import torch

    from dowse.running.interrupt import interruptible
    from dowse.running.run_experiment import run_experiment
    from dowse.store.events import Stopped
    from dowse.wording import without_password

    if manner.threads is not None:
        torch.set_num_threads(manner.threads)
    command = ["dowse", *map(without_password, sys.argv[1:])]
    with closing(reporter(manner)) as report, closing(engine_of(manner, report)) as engine:
        wish = "finishing the round; Ctrl-C again stops at once"
        with interruptible(lambda: report.message(wish)) as interrupt:
            try:
                finished = run_experiment(
                    experiment,
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
                report.message(f"stopped; every answer is kept. Go on with: {shlex.join(command)}")
                raise typer.Exit(INTERRUPTED) from None
    if not manner.quiet and not manner.json:
        show_table(finished)
    return finished


def share_of_rate(rate: float | None, engine: str | None, workers: int | None) -> float | None:
    """The rows a second that each worker may send, so that all together send no more than the rate."""
    from dowse.errors import InputError
    from dowse.machine.cpu import usable_cores

    if rate is None:
        return None
    if workers is None and engine == "ray":
        raise InputError(f"--rate {rate:g} is shared by all workers: say with --workers how many the engine ray has")
    return rate / (workers or (usable_cores() if engine == "processes" else 1))


def engine_of(manner: Manner, report: "Reporter") -> "AnyEngine":
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
    """Who is told: bars in a terminal, lines elsewhere, JSON, or nobody; TensorBoard beside it."""
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
    if not manner.tensorboard:
        return told
    from dowse.running.tensorboard import TensorBoard

    return Several([told, TensorBoard(manner.out / "tensorboard")])


def wide_console() -> "Console":
    """The terminal; elsewhere, where lines may be as long as they like, a wide one."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 180))


def show_table(finished: "Sequence[Finished]") -> None:
    """Print a row a run, and what was left out."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        "run", "method", "target", "norm", "n", "ASR", "AVG. Q", "median Q", "mean Q",
        caption="AVG. Q over successes; median with failures infinite; mean with failures at the budget",
        caption_justify="left",
    )  # fmt: skip
    for one in finished:
        s, spec = one.summary, one.plan.spec
        table.add_row(
            spec.id,
            escape(one.plan.title),
            escape(spec.content()["target"]),
            spec.norm,
            str(s.n),
            f"{s.asr:.1%}",
            f"{s.mean_queries:.1f}",
            f"{s.median_queries:g}",
            f"{s.mean_queries_budget:.1f}",
        )
    console = wide_console()
    console.print(table)
    skipped = {name: reason for one in finished for name, reason in one.skipped.items()}
    if skipped:
        console.print(f"{len(skipped)} images could not be read and were left out:", highlight=False)
        for name, reason in skipped.items():
            console.print(f"  {name}: {reason}", markup=False, highlight=False)
    wrong = max((one.summary.already_wrong for one in finished), default=0)
    if wrong:
        console.print(f"up to {wrong} images a run were misclassified unchanged and are left out of n", highlight=False)
