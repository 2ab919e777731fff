"""`dowse attack`: one method on one target, the shortcut of `dowse run` with the same words."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from dowse.cli import running
from dowse.cli.failing import failing_kindly

EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}  # a method's own options, such as --q 20


def attack(
    context: typer.Context,
    target: Annotated[str, typer.Option(help="What is attacked, for example dowse:cifar10_resnet20.")],
    images: Annotated[str, typer.Option(help="A folder, an .npz, a .safetensors or an image file.")],
    surrogate: Annotated[list[str] | None, typer.Option(help="A surrogate; several work together.")] = None,
    method: Annotated[str, typer.Option(help="`dowse methods` lists them.")] = "prgf",
    norm: Annotated[str, typer.Option(help="l2 or linf.")] = "l2",
    eps: Annotated[float | None, typer.Option(help="The ball's radius; the paper's if left out.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="The most queries an image may cost.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of all random streams.")] = 0,
    count: Annotated[int | None, typer.Option(min=1, help="How many images, from the first.")] = None,
    labels: Annotated[str, typer.Option(help="auto, target (the target's own), or a CSV file.")] = "auto",
    size: Annotated[int | None, typer.Option(min=1, help="Side of the images; the target's if left out.")] = None,
    defence: Annotated[str, typer.Option(help="In front of the target, for example jpeg:75.")] = "none",
    weights: Annotated[Path | None, typer.Option(help="The target's weights: .safetensors, or a torch file.")] = None,
    rate: running.Rate = None,
    targeted: Annotated[bool, typer.Option("--targeted", help="Reach each image's target_label.")] = False,
    dtype: Annotated[str, typer.Option(help="Precision of images and networks: float32 or float64.")] = "float32",
    concurrency: Annotated[int, typer.Option(min=1, help="How many images are attacked at once.")] = 8,
    batch_size: Annotated[int | None, typer.Option(min=1, help="The most rows of one forward pass.")] = None,
    out: running.Out = Path("out"),
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
    """Attack images with one method. Its own options (--q 20, --lam 0.05, --subspace 50) and the other words of an
    experiment (--loss margin, --quantize true, --outputs probs, --decimals 4; about surrogates --smooth 15,
    --class-offset 1, --surrogate-size 299, --combine cycle) can follow."""
    from dowse.machine.cpu import ensure_fast_malloc

    ensure_fast_malloc()
    with failing_kindly():
        from dowse.experiment.file import make_experiment
        from dowse.targets import with_options

        extra = extra_words(context.args)
        target = with_options(target, weights=weights)
        tables: dict[str, Any] = {
            "name": method, "target": target, "defence": defence, "budget": budget, "norm": norm, "seed": seed,
            "concurrency": concurrency, "images": {"path": images, "labels": labels, "count": count, "size": size},
            "method": {"name": method, **extra}, "targeted": targeted, "dtype": dtype,
        }  # fmt: skip
        if surrogate:
            tables["surrogate"] = [surrogate]
        if eps is not None:
            tables["eps"] = eps
        if batch_size is not None:
            tables["batch_size"] = batch_size
        if save is not None:
            tables["save"] = save
        manner = running.Manner(
            out=out, engine=engine, workers=workers, address=address, cpus_per_worker=cpus_per_worker,
            gpus_per_worker=gpus_per_worker, quiet=quiet, json=json, no_answers=no_answers, keep_answers=keep_answers,
            device=device, threads=threads, tensorboard=tensorboard,
        )  # fmt: skip
        experiment = make_experiment(tables, source="dowse attack")
        running.execute(experiment.changed(rate=running.share_of_rate(rate, engine, workers)), manner)


def extra_words(arguments: list[str]) -> dict[str, Any]:
    """The words after the known options: --q 20 --lam=0.05 -> {"q": 20, "lam": 0.05}."""
    from dowse.errors import InputError

    words: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if not name.startswith("--"):
            raise InputError(f"got {argument!r} where an option was expected: write --{argument} VALUE")
        if not equals:
            given = next(rest, None)
            if given is None:
                raise InputError(f"{name} needs a value")
            value = given
        words[name[2:].replace("-", "_")] = literal(value)
    return words


def literal(text: str) -> Any:
    """A value as TOML would write it; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
