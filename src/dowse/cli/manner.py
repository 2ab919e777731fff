"""How an experiment is run: the options that `dowse run`, `dowse attack` and `dowse audit` share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

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


def named_folder(text: str | Path) -> Path:
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
        _option(
            "--out", "-o", parser=named_folder, metavar="PATH", help="Folder of the store; the same folder goes on."
        ),
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
