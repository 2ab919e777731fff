"""`dowse train-denoiser`: train a guided denoiser for a classifier, and measure what it does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dowse.cli.failing import computing

if TYPE_CHECKING:
    from rich.progress import Progress
    from torch import Tensor, nn

    from dowse.defences.measure import Accuracy
    from dowse.defences.train_denoiser import Learner

CHECKPOINT_EVERY = 50


def train_denoiser(
    target: Annotated[str, typer.Option(help="The classifier to defend, for example dowse:imagenet_mobilenetv2.")],
    images: Annotated[str, typer.Option(help="Images to train on; they need no labels.")],
    out: Annotated[Path, typer.Option(help="Folder for the weights, the checkpoint and the loss curve.")],
    source: Annotated[list[str] | None, typer.Option(help="A net to learn the noise of, besides the target.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of the optimiser.")] = 1000,
    warm_up: Annotated[int, typer.Option(min=0, help="Of the steps, so many compare pixels first.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Images a step.")] = 16,
    crop: Annotated[int | None, typer.Option(min=1, help="Train on random squares of this side.")] = None,
    eps: Annotated[float, typer.Option(help="The largest noise, in levels of 255.")] = 12.0,
    clean: Annotated[float, typer.Option(help="The share of training images without noise.")] = 0.3,
    attack_steps: Annotated[int, typer.Option(min=1, help="Steps of the attack that makes the noise.")] = 3,
    rate: Annotated[float, typer.Option(help="The optimiser's first rate.")] = 3e-3,
    channels: Annotated[str, typer.Option(help="Channels of the U-Net's levels.")] = "16,32,64",
    shuffle: Annotated[int, typer.Option(min=1, help="Side of the pixel blocks it works on; 2 at ImageNet size.")] = 1,
    detail: Annotated[bool, typer.Option("--detail", help="Show it how pixels stand out of their neighbours.")] = False,
    strength: Annotated[float, typer.Option(help="Save a denoiser that predicts so many times the noise.")] = 1.0,
    start: Annotated[
        Path | None, typer.Option(help="Begin with the weights of a denoiser that was trained before.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Side of the images; the target's if left out.")] = None,
    hold_out: Annotated[int, typer.Option(min=0, help="Images from the end to measure on, not to train on.")] = 0,
    test_images: Annotated[str | None, typer.Option(help="Labelled images to measure on instead.")] = None,
    test_source: Annotated[str | None, typer.Option(help="A net whose noise is measured, not learnt.")] = None,
    test_eps: Annotated[str, typer.Option(help="Sizes of the noise to measure, in levels of 255.")] = "4,8",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
) -> None:
    """Train a guided denoiser (Liao et al. 2018), going on from a checkpoint in --out; its spec is then
    denoiser:OUT/denoiser.safetensors+TARGET."""
    with computing():
        import torch

        from dowse.defences.denoiser import load_denoiser
        from dowse.defences.train_denoiser import Learner, Training
        from dowse.errors import InputError
        from dowse.images.sources import open_images
        from dowse.targets import input_size, module_of, resolve_surrogate, resolve_target

        torch.set_num_threads(threads)
        if test_source is not None and not (hold_out or test_images):
            raise InputError("--test-source measures on images: give --test-images or --hold-out")
        side = size or input_size(target)
        training = Training(
            steps=steps, warm_up=warm_up, batch=batch, crop=crop, eps=eps / 255, clean=clean, attack_steps=attack_steps,
            rate=rate, channels=tuple(map(int, _numbers("channels", channels))), shuffle=shuffle, detail=detail,
            seed=seed,
        )  # fmt: skip
        sizes = [level / 255 for level in _numbers("test-eps", test_eps)]
        net = module_of(target, resolve_target(target), "the target to defend must be a torch network")
        found = open_images(images).load(size=side)
        end = len(found.images) - hold_out
        if end < 1:
            raise InputError(f"--hold-out {hold_out} leaves nothing of {len(found.images)} images to train on")
        tested = open_images(test_images).load(size=side) if test_images else found[end:]
        measured = None if test_source is None else (tested.images, tested.labels)  # a missing label is an error now
        out.mkdir(parents=True, exist_ok=True)
        learner = Learner(net, training)
        if (out / "checkpoint.pt").is_file():
            learner.restore(out / "checkpoint.pt")
            typer.echo(f"going on from step {len(learner.losses)} of {steps}")
        elif start is not None:
            learner.begin_with(load_denoiser(start))
        _train(learner, found[:end].images, [net, *map(resolve_surrogate, source or ())], out, strength)
        if test_source is not None and measured is not None:
            _measure(learner, resolve_surrogate(test_source), measured, sizes, out)


def _train(learner: "Learner", images: "Tensor", sources: list["nn.Module"], out: Path, strength: float) -> None:
    from dowse.defences.denoiser import save_denoiser, strengthened
    from dowse.defences.train_denoiser import craft_noise, write_curve

    steps = learner.training.steps
    with _bars() as bars:
        if len(learner.losses) < steps:
            crafting = bars.add_task("crafting noise", total=len(sources) * len(images), loss="")
            noise = craft_noise(
                images, sources, learner.training, lambda done, _: bars.update(crafting, completed=done)
            )
            training = bars.add_task("training", total=steps, completed=len(learner.losses), loss="")
            for step in learner.run(images, noise):
                recent = learner.losses[-20:]
                bars.update(training, completed=step.number, loss=f"loss {sum(recent) / len(recent):.4f}")
                if step.number % CHECKPOINT_EVERY == 0 or step.number == steps:
                    learner.save(out / "checkpoint.pt")
                    write_curve(learner.losses, out, learner.training.warm_up)
    save_denoiser(strengthened(learner.unet, strength), out / "denoiser.safetensors")
    table, picture = write_curve(learner.losses, out, learner.training.warm_up)
    typer.echo(f"weights {out / 'denoiser.safetensors'}, loss curve {table} and {picture}")


def _measure(
    learner: "Learner", source: "nn.Module", tested: tuple["Tensor", "Tensor"], eps: list[float], out: Path
) -> None:
    from rich.console import Console
    from rich.table import Table

    from dowse.defences.denoiser import Denoiser, load_denoiser
    from dowse.defences.measure import measure_defence

    defended = Denoiser(learner.net, load_denoiser(out / "denoiser.safetensors"))
    with _bars() as bars:
        task = bars.add_task("measuring", total=len(tested[0]), loss="")
        rows = measure_defence(
            learner.net, defended, source, *tested, eps, on_progress=lambda done, _: bars.update(task, completed=done)
        )
    table = Table("noise", "levels", "undefended", "defended", title=f"accuracy on {len(tested[0])} images")
    for row in rows:
        table.add_row(row.noise, f"{255 * row.eps:g}", f"{row.undefended:.1%}", f"{row.defended:.1%}")
    Console().print(table)
    _write(rows, out / "accuracy.csv")


def _write(rows: list["Accuracy"], path: Path) -> None:
    import csv

    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("noise", "eps", "undefended", "defended"))
        writer.writerows((row.noise, f"{row.eps:.6g}", row.undefended, row.defended) for row in rows)


def _bars() -> "Progress":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )  # fmt: skip


def _numbers(name: str, text: str) -> list[float]:
    from dowse.errors import InputError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--{name} must be numbers with commas between, got {text!r}") from None
