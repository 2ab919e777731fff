"""`dowse check`: the preflight of a target, a table of findings with their remedies."""

import json as json_module
from typing import TYPE_CHECKING, Annotated

import typer

from dowse.cli.failing import FAILED, computing
from dowse.cli.options import Labels, Threads, Weights

if TYPE_CHECKING:
    from torch import Tensor

    from dowse.core.target import Shape
    from dowse.preflight import Preflight

COLOURS = {"good": "green", "note": "yellow", "wrong": "bold red"}


def check(
    target: Annotated[str, typer.Option(help="What to check, for example dowse:imagenet_resnet18 or http://…")],
    images: Annotated[
        str | None,
        typer.Option(help="A folder, an .npz, a .safetensors or an image file; else the demo's photographs, or noise."),
    ] = None,
    labels: Labels = "auto",
    count: Annotated[int, typer.Option(min=1, help="How many images.")] = 8,
    shape: Annotated[
        str | None, typer.Option(help="Of the images, for example 3x32x32; else the target's own.")
    ] = None,
    outputs: Annotated[str, typer.Option(help="What the target answers with: logits or probs.")] = "logits",
    weights: Weights = None,
    rate: Annotated[float | None, typer.Option(help="Http targets: the most rows a second, retries included.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long to measure the speed.")] = 2.0,
    threads: Threads = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Ask a target some questions before a long run, and say what is wrong with it and what to do.

    It sends about 40 rows for 8 images, and at most 256 more to measure the speed, which --seconds 0 leaves out. Ends
    with 1 if something is wrong.
    """
    with computing():
        from typing import cast

        import torch

        from dowse.errors import choose
        from dowse.preflight import as_record, preflight
        from dowse.settings import Outputs
        from dowse.targets import declared_shape, open_target, parse_shape, with_options, with_rate

        choose("outputs", outputs, ("logits", "probs"))
        if threads is not None:
            torch.set_num_threads(threads)
        (limited,) = with_rate([target], rate)
        made = open_target(with_options(limited, weights=weights))
        sizes = parse_shape(shape) if shape is not None else declared_shape(target, made)
        points, known, labels_from = _images(images, labels, count, sizes, target)
        report = preflight(made, points, known, outputs=cast(Outputs, outputs), seconds=seconds)
        if json:
            typer.echo(json_module.dumps(as_record(report), ensure_ascii=False))
        else:
            _print(target, report, labels_from)
        if not report.ok:
            raise typer.Exit(FAILED)


def _images(
    path: str | None, labels: str, count: int, sizes: "Shape | None", target: str
) -> "tuple[Tensor, list[int | None], str]":
    """Images to ask a target about, (n, C, H, W), their labels and where these come from: those given, else the demo's
    photographs, else noise."""
    import torch

    from dowse.errors import InputError
    from dowse.images.class_names import names_of, with_names
    from dowse.images.image_set import in_channels
    from dowse.images.sources import PHOTOGRAPHS, are_installed, open_images

    if path is None:
        if sizes is None:
            raise InputError("the target does not say which images it takes: give --images or --shape 3x224x224")
        if sizes[0] != 3 or not are_installed():
            return torch.rand(count, *sizes, generator=torch.Generator().manual_seed(0)), [None] * count, ""
        path, labels = PHOTOGRAPHS, "target"
    source = with_names(open_images(path, labels), names_of(target))
    seen = in_channels(source, None if sizes is None or sizes[0] not in (1, 3) else sizes[0])
    found = seen.load(count, None if sizes is None else sizes[1:])
    return found.images, [entry.label for entry in found.entries], source.labels_from


def _print(target: str, report: "Preflight", labels_from: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("check", "", "found", "remedy", title=f"[bold]{escape(target)}[/bold]", title_justify="left")
    for finding in report.findings:
        colour = COLOURS[finding.verdict]
        table.add_row(
            finding.check, f"[{colour}]{finding.verdict}[/{colour}]", escape(finding.found), escape(finding.remedy)
        )
    console = Console()
    console.print(table)
    if labels_from:
        console.print(f"labels: {labels_from}", markup=False, highlight=False)
    verdict = "nothing is wrong" if report.ok else "something is wrong"
    console.print(f"{verdict}; it cost {report.queries} queries ({report.sent} rows sent)", highlight=False)
