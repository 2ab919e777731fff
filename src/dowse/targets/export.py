"""A torch module becomes an ONNX file, checked against the module before the file is kept."""

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dowse.core.target import as_target
from dowse.errors import InputError, in_a_line, positive
from dowse.machine.files import replacing
from dowse.machine.importing import needed
from dowse.targets.onnx import OnnxTarget

INPUT, OUTPUT = "pixels", "scores"
GRAPH_PRINTER = "_jit_onnx_log"  # prints a graph that could not be written from C++, past sys.stdout


@dataclass(frozen=True)
class Exported:
    """An ONNX file that was written.

    Attributes:
        path: Where.
        input_shape: (C, H, W) of its images.
        batch_size: Its fixed batch size; None if it takes any.
        classes: K.
        difference: The largest difference to the module's scores, relative to the largest score where that is above 1.
    """

    path: Path
    input_shape: tuple[int, int, int]
    batch_size: int | None
    classes: int
    difference: float


def export_onnx(
    net: nn.Module,
    path: str | os.PathLike[str],
    shape: Sequence[int],
    *,
    batch_size: int | None = None,
    tolerance: float = 1e-4,
) -> Exported:
    """Write a module, points (n, C, H, W) in [0, 1] -> scores (n, K), as an ONNX file and compare the two.

    Args:
        net: A module in eval mode, on the CPU, in float32.
        path: The file to write; it is replaced at once or, if the export fails or differs, not at all.
        shape: (C, H, W) of the images.
        batch_size: Fix the batch size; None leaves it free.
        tolerance: The largest difference to the module's scores that is accepted.
    """
    if len(shape) != 3 or any(size < 1 for size in shape):
        raise InputError(f"shape must be (C, H, W), for example 3×224×224, got {tuple(shape)}")
    positive(tolerance=tolerance)
    if batch_size is not None:
        positive(batch_size=batch_size)
    target = as_target(net)
    if target.takes_row_seeds:
        raise InputError("this target draws noise, which an ONNX file cannot: export the classifier behind its defence")
    if not target.differentiable:
        raise InputError(
            f"{target.name} is no network, and an ONNX file holds nothing else: export the classifier behind "
            "it, and write the defence in front of onnx:FILE"
        )
    place = Path(path)
    if not place.parent.is_dir():
        raise InputError(f"there is no folder {place.parent} to write {place.name} into")
    check_takes(net, (batch_size or 2, *shape))
    with replacing(place) as partial:
        _write(net, partial, (batch_size or 2, *shape), dynamic=batch_size is None)
        classes, difference = _compare(net, OnnxTarget(partial), shape, batch_size or 3)
        if not difference <= tolerance:
            raise InputError(
                f"the ONNX file would answer differently from the module by {difference:.2g}, more than {tolerance:g}: "
                "call net.eval(), and see whether its forward pass depends on values or on chance"
            )
    c, h, w = shape
    return Exported(place, (c, h, w), batch_size, classes, difference)


def check_takes(net: nn.Module, shape: Sequence[int]) -> None:
    """Raise InputError if a network has no answer to images of a shape, (n, C, H, W), as one forward pass tells."""
    try:
        with torch.no_grad():
            net(torch.rand(*shape, generator=torch.Generator().manual_seed(0)))
    except Exception as error:
        raise InputError(
            f"the network fails on images {'×'.join(map(str, shape[1:]))} in float32 on the CPU: {in_a_line(error)}. "
            "Give the shape that it was made for, to `dowse export` with --shape"
        ) from error


def _write(net: nn.Module, path: Path, shape: Sequence[int], *, dynamic: bool) -> None:
    for package in ("onnx", "onnxscript"):
        needed(package, f"an export needs {package}", "onnx")
    # torch sees one free size: the rows. Two rows stand for any number, one would be taken for a constant.
    sizes: Any = ({0: torch.export.Dim("n")},) if dynamic else None
    try:
        with quietly():
            program = torch.onnx.export(
                net, (torch.rand(*shape),), input_names=[INPUT], output_names=[OUTPUT], dynamic_shapes=sizes,
                dynamo=True, verbose=False,
            )  # fmt: skip
            assert program is not None
            program.save(path)
    except Exception as error:
        raise InputError(f"torch cannot export this module: {_innermost(error)}") from error


def _compare(net: nn.Module, file: OnnxTarget, shape: Sequence[int], rows: int) -> tuple[int, float]:
    """K, and the largest difference on images of noise, also of one row alone where the file takes that."""
    rng = torch.Generator().manual_seed(0)
    points = torch.rand(rows, *shape, generator=rng)
    with torch.no_grad():
        expected: Tensor = net(points)
    parts = [points] if file.rows_per_call is not None else [points[:1], points[1:]]
    got = torch.cat([file(part) for part in parts])
    if got.shape != expected.shape:
        raise InputError(f"the ONNX file answers with shape {tuple(got.shape)}, the module {tuple(expected.shape)}")
    return expected.shape[1], float((got - expected).abs().max() / expected.abs().max().clamp_min(1))


def _innermost(error: BaseException) -> str:
    """The first line of what went wrong at the bottom; the exporter wraps it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return in_a_line(error)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the exporters' chatter: their errors are raised, what they print or log beside them is no news here."""
    level, nothing = logging.root.manager.disable, io.StringIO()
    printer = getattr(torch._C, GRAPH_PRINTER, None)
    logging.disable(logging.ERROR)
    setattr(torch._C, GRAPH_PRINTER, lambda *_: None)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
            warnings.simplefilter("ignore")
            yield
    finally:
        setattr(torch._C, GRAPH_PRINTER, printer)
        logging.disable(level)
