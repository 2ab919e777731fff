"""Targets that are ONNX files, run by onnxruntime: the fast path on a CPU."""

import importlib
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dowse.core.answers import Reader
from dowse.core.target import Target
from dowse.errors import InputError
from dowse.machine.importing import needed
from dowse.settings import Outputs
from dowse.targets.declared_form import Array, filled, form_of, image_shape, named
from dowse.targets.options import OnnxOptions

ELEMENTS = {"tensor(float)": "FP32", "tensor(double)": "FP64", "tensor(float16)": "FP16", "tensor(uint8)": "UINT8"}
PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


class OnnxTarget(Target):
    """A classifier in an ONNX file: points (n, C, H, W) in [0, 1] -> scores (n, K).

    A file with a fixed batch size is asked in batches of that size, the last one filled up with copies of a row whose
    scores are dropped.

    Args:
        path: The file.
        options: See OnnxOptions.
        calls_at_once: How many calls share its threads: with as many calls as threads each pass has a thread of its
            own, and none waits for another at the end of a layer.

    Attributes:
        rows_per_call: The file's fixed batch size; None if it takes any.
        input_shape: (C, H, W) as far as the file fixes it; None if it leaves something free.
    """

    def __init__(self, path: str | Path, options: OnnxOptions | None = None, *, calls_at_once: int = 1) -> None:
        self.path, self.options, self.calls_at_once = Path(path), options or OnnxOptions(), calls_at_once
        threads = self.options.threads or torch.get_num_threads()
        self._session = _open(self.path, max(1, threads // calls_at_once))
        self._input = named("input", self._session.get_inputs(), self.options.input, attrgetter("name"))
        self._output = named("output", self._session.get_outputs(), self.options.output, attrgetter("name"))
        if self._input.type not in ELEMENTS:
            raise InputError(f"{path} takes {self._input.type}, expected one of {', '.join(ELEMENTS)}")
        self._shape = _sizes(self._input.shape)
        self.rows_per_call = self._shape[0] if len(self._shape) == 4 else None
        self.input_shape = image_shape(self._shape, self.options.layout)
        self.read = Reader()  # for a file with one output, which is two classes

    def __repr__(self) -> str:
        return f"OnnxTarget({str(self.path)!r})"

    def __call__(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores (n, K) of points (n, C, H, W)."""
        rows = form_of(self._shape, ELEMENTS[self._input.type], points.shape[1:], self.options).encode(points)
        if self.rows_per_call is None:
            return self._as_scores(self._run(rows))
        if len(rows) == 0:
            return self._nothing()
        step = self.rows_per_call
        return self._as_scores(np.concatenate([self._run(rows[i : i + step], step) for i in range(0, len(rows), step)]))

    def expect(self, outputs: Outputs) -> None:
        self.read.expects = outputs

    @property
    def form(self) -> str | None:
        """What one output is read as, where it has one only."""
        return f"{ELEMENTS[self._input.type]} in, {self.read.words} out" if self.read.single else None

    def operations(self) -> list[str]:
        """What the file computes, in order, up to the output; nothing where the package onnx cannot tell."""
        try:
            nodes = importlib.import_module("onnx").load(str(self.path), load_external_data=False).graph.node
        except Exception:  # not installed, or a form that onnxruntime alone reads
            return []
        answering = next((i for i, node in enumerate(nodes) if self._output.name in node.output), -1)
        return [node.op_type for node in nodes[: answering + 1]]

    def _run(self, rows: Array, size: int = 0) -> Array:
        (scores,) = self._session.run([self._output.name], {self._input.name: filled(rows, size)})
        return np.asarray(scores)[: len(rows)]

    def _as_scores(self, scores: Array) -> Tensor:
        if scores.ndim != 2:
            raise TypeError(f"{self.path} answers with shape {scores.shape}, expected (n, K): choose another output=")
        read: Tensor = self.read(torch.from_numpy(scores), len(scores))
        return read

    def _nothing(self) -> Tensor:
        """Scores of no rows, for whoever wants to learn K without a query."""
        classes = _sizes(self._output.shape)[-1]
        if classes is None:
            raise TypeError(f"{self.path} does not say how many classes it has")
        return torch.empty((0, 2 if classes == 1 else classes))


def _open(path: Path, threads: int) -> Any:
    onnxruntime = needed("onnxruntime", "onnx: targets need onnxruntime", "onnx")
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}: `dowse export SPEC --out FILE` makes one")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as `machine.cpu.wait_without_spinning`
    settings.log_severity_level = 4  # what fails is raised
    providers = [name for name in PROVIDERS if name in onnxruntime.get_available_providers()]
    try:
        return onnxruntime.InferenceSession(str(path), settings, providers=providers)
    except Exception as error:
        raise InputError(f"onnxruntime cannot read {str(path)!r}: {error}") from error


def _sizes(shape: Sequence[Any]) -> list[int | None]:
    """An ONNX shape with None where the file has a symbol or nothing."""
    return [size if isinstance(size, int) and size > 0 else None for size in shape]
