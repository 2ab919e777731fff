"""`dowse export`: a torch target becomes an ONNX file, the fast path on a CPU."""

from pathlib import Path
from typing import Annotated

import typer

from dowse.cli.failing import failing_kindly
from dowse.cli.options import Weights


def export(
    spec: Annotated[str, typer.Argument(help="What to export, for example dowse:imagenet_mobilenetv2.")],
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")],
    shape: Annotated[
        str | None, typer.Option(help="Of the images, for example 3x224x224; the model's own if left out.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Fix the batch size; free if left out.")] = None,
    weights: Weights = None,
    tolerance: Annotated[float, typer.Option(help="The largest difference in scores that is accepted.")] = 1e-4,
) -> None:
    """Write a torch target as an ONNX file, compare the two, and say how to use it."""
    with failing_kindly():
        from dowse.errors import InputError
        from dowse.targets import declared_shape, module_of, parse_shape, resolve_target
        from dowse.targets.export import export_onnx

        needed = "only a torch network can be exported (an ONNX file is one already)"
        net = module_of(spec, resolve_target(spec, weights), needed)
        sizes = parse_shape(shape) if shape is not None else declared_shape(spec, net)
        if sizes is None:
            raise InputError(f"{spec} does not say which images it takes: give --shape, for example --shape 3x224x224")
        made = export_onnx(net, out, sizes, batch_size=batch_size, tolerance=tolerance)
        batch = "any number of rows" if made.batch_size is None else f"{made.batch_size} rows at a time"
        typer.echo(
            f"wrote {made.path}: {'×'.join(map(str, made.input_shape))} images, {made.classes} classes, {batch}; "
            f"its scores differ from torch's by at most {made.difference:.1e}\nuse it as --target onnx:{made.path}"
        )
