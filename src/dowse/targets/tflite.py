"""Targets that are TensorFlow Lite files, float or quantised, run by LiteRT."""

import importlib
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dowse.core.answers import Reader
from dowse.core.target import Target
from dowse.errors import InputError
from dowse.settings import Outputs
from dowse.targets.declared_form import Array, filled, form_of, image_shape, named
from dowse.targets.options import TfliteOptions
from dowse.wording import step as step_words

INTERPRETERS = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter", "tensorflow.lite.python.interpreter")
TAKEN = (np.float32, np.uint8, np.int8, np.int16)


class TfliteTarget(Target):
    """A classifier in a .tflite file: points (n, C, H, W) in [0, 1] -> scores (n, K).

    8-bit inputs get the levels 0 … 255 of the pixels, shifted by 128 where they are signed; with scale=, mean= or std=
    of the options they get those numbers by the input's own scale and zero point. Outputs are scaled back to what they
    stand for. A file of a fixed batch size is asked in batches of that size, the last one filled up with copies.

    Args:
        path: The file.
        options: See TfliteOptions.

    Attributes:
        step: The distance between two scores that can be told apart; None of floats.
    """

    def __init__(self, path: str | Path, options: TfliteOptions | None = None) -> None:
        self.path, self.options = Path(path), options or TfliteOptions()
        self._runner = _open(self.path, self.options)
        inputs, outputs = self._runner.get_input_details(), self._runner.get_output_details()
        self._input = named("input", inputs, self.options.input, itemgetter("name"))
        self._output = named("output", outputs, self.options.output, itemgetter("name"))
        if self._input["dtype"] not in TAKEN:
            raise InputError(f"{path} takes {np.dtype(self._input['dtype']).name}, expected floats or 8-bit pixels")
        declared = self._input.get("shape_signature", self._input["shape"])
        self._shape = [int(size) if size > 0 else None for size in declared]
        if len(self._shape) != 4:
            raise InputError(
                f"{path} takes an input of {len(self._shape)} axes, an image classifier's has 4: choose input="
            )
        self.rows_per_call = self._shape[0]
        self.input_shape = image_shape(self._shape, self.options.layout)
        scale, zero = self._output["quantization"]
        self.step = float(scale) if scale else None
        self._zero = zero
        self.read = Reader(self.options.outputs or self._known(), adapted=True, floor=self.step and self.step / 2)

    def __repr__(self) -> str:
        return f"TfliteTarget({str(self.path)!r})"

    def __call__(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores (n, K) of points (n, C, H, W)."""
        rows = self._encode(points)
        if not len(rows):
            classes = int(self._output["shape"][-1])
            return torch.empty((0, 2 if classes == 1 else classes))
        step = self.rows_per_call or len(rows)
        answer = np.concatenate([self._run(rows[i : i + step], step) for i in range(0, len(rows), step)])
        scores: Tensor = self.read(answer, len(rows))
        return scores

    def expect(self, outputs: Outputs) -> None:
        self.read.expects = outputs

    @property
    def form(self) -> str:
        """How images go in and scores come out."""
        layout = (
            "NHWC" if self.input_shape is None else form_of(self._shape, "FP32", self.input_shape, self.options).layout
        )
        steps = "" if self.step is None else f" in steps of {step_words(self.step)}"
        return f"{np.dtype(self._input['dtype']).name} {layout} in, {self.read.words}{steps} out"

    def _known(self) -> Outputs | None:
        """Softmax and sigmoid have one and the same quantisation in every file: [0, 1) in 256 steps."""
        if self.step is None or self._output["dtype"] not in (np.uint8, np.int8):
            return None
        least = np.iinfo(self._output["dtype"]).min
        return "probs" if abs(self.step * 256 - 1) < 1e-3 and self._zero == least else None

    def _encode(self, points: Tensor) -> Array:
        """The input of points (n, C, H, W), in the file's layout and type."""
        kind, said = self._input["dtype"], self.options
        pixels: Array = form_of(self._shape, "FP32", points.shape[1:], said).encode(points)
        if kind == np.float32:
            return pixels
        limits = np.iinfo(kind)
        if (said.scale, said.mean, said.std) == (None, None, None) and kind != np.int16:
            levels = np.rint(pixels * 255) + limits.min
        else:
            scale, zero = self._input["quantization"]
            levels = np.rint(pixels / (scale or 1.0)) + zero
        return np.asarray(levels.clip(limits.min, limits.max), kind)

    def _run(self, rows: Array, size: int) -> Array:
        """What some rows are answered with, scaled back; (m, K)."""
        given = filled(rows, size)
        if tuple(given.shape) != tuple(self._runner.get_input_details()[0]["shape"]) and self.rows_per_call is None:
            self._runner.resize_tensor_input(self._input["index"], given.shape)
            self._runner.allocate_tensors()
        self._runner.set_tensor(self._input["index"], given)
        self._runner.invoke()
        answer = np.asarray(self._runner.get_tensor(self._output["index"]))[: len(rows)]
        return answer if self.step is None else (answer.astype(np.float64) - self._zero) * self.step


def _open(path: Path, options: TfliteOptions) -> Any:
    """An interpreter of the file, ready to run."""
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}: give the path of a .tflite file")
    made = _interpreter()
    try:
        runner = made(model_path=str(path), num_threads=options.threads or torch.get_num_threads())
        runner.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise InputError(f"LiteRT cannot read {str(path)!r}: {' '.join(str(error).split())}") from error
    return runner


def _interpreter() -> Any:
    for name in INTERPRETERS:
        try:
            return importlib.import_module(name).Interpreter
        except ImportError:
            continue
    raise InputError("tflite: targets need ai-edge-litert, which is not installed: pip install 'dowse[tflite]'")
