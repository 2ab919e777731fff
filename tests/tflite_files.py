"""Small .tflite files made by hand, as a converter would: pixels -> a fully connected layer -> softmax or sigmoid."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np


def write_tflite(
    path: Path, weights: np.ndarray, shape: tuple[int, int, int], *, dtype: str = "int8", head: str = "softmax"
) -> Path:
    """Write a classifier of images (H, W, C) in [0, 1]: softmax or sigmoid of weights (K, H·W·C) times the pixels.

    Args:
        path: The file.
        weights: The layer's.
        shape: (H, W, C).
        dtype: "int8" and "uint8" quantise all; "float32" nothing.
        head: "softmax", "sigmoid", or "none" for logits.
    """
    import flatbuffers

    s = importlib.import_module("ai_edge_litert.schema_py_generated")
    types = {"int8": s.TensorType.INT8, "uint8": s.TensorType.UINT8, "float32": s.TensorType.FLOAT32}
    quantised, kind = dtype != "float32", types[dtype]
    least = -128 if dtype == "int8" else 0
    K, D = weights.shape
    w_scale = float(np.abs(weights).max() / 127)
    x_scale, z_scale = 1 / 255, 32 / 255
    buffers, tensors = [_made(s.BufferT)], []

    def tensor(name: str, size: list[int], type_: int, scale: float, zero: int, data: np.ndarray | None = None) -> int:
        one = _made(s.TensorT, name=name.encode(), shape=size, type=type_, buffer=0)
        if data is not None:
            buffers.append(_made(s.BufferT, data=np.frombuffer(data.tobytes(), np.uint8)))
            one.buffer = len(buffers) - 1
        if quantised and scale:
            one.quantization = _made(s.QuantizationParametersT, scale=[scale], zeroPoint=[zero])
        tensors.append(one)
        return len(tensors) - 1

    offset = 128 if dtype == "uint8" else 0  # 8-bit weights without a sign have their zero in the middle
    codes = np.rint(weights / w_scale).astype(np.int64)
    held = (codes + offset).astype(dtype) if quantised else weights.astype(np.float32)
    bias = np.zeros(K, np.int32 if quantised else np.float32)
    x = tensor("pixels", [1, *shape], kind, x_scale, least)
    flat = tensor("flat", [1, D], kind, x_scale, least)
    w = tensor("weights", [K, D], kind, w_scale, offset, held)
    b_type = s.TensorType.INT32 if quantised else s.TensorType.FLOAT32
    b = tensor("bias", [K], b_type, x_scale * w_scale, 0, bias)
    to = tensor("to", [2], s.TensorType.INT32, 0, 0, np.array([1, D], np.int32))
    z = tensor("logits", [1, K], kind, z_scale, 0 if dtype == "int8" else 128)
    ops, codes_of = [], [s.BuiltinOperator.RESHAPE, s.BuiltinOperator.FULLY_CONNECTED]
    ops.append(_made(s.OperatorT, opcodeIndex=0, inputs=[x, to], outputs=[flat]))
    ops.append(
        _made(
            s.OperatorT, opcodeIndex=1, inputs=[flat, w, b], outputs=[z],
            builtinOptionsType=s.BuiltinOptions.FullyConnectedOptions, builtinOptions=s.FullyConnectedOptionsT(),
        )
    )  # fmt: skip
    out = z
    if head != "none":
        out = tensor("scores", [1, K], kind, 1 / 256, least)
        if head == "softmax":
            codes_of.append(s.BuiltinOperator.SOFTMAX)
            options = {
                "builtinOptionsType": s.BuiltinOptions.SoftmaxOptions,
                "builtinOptions": _made(s.SoftmaxOptionsT, beta=1.0),
            }
        else:
            codes_of.append(s.BuiltinOperator.LOGISTIC)
            options = {}
        ops.append(_made(s.OperatorT, opcodeIndex=2, inputs=[z], outputs=[out], **options))
    graph = _made(s.SubGraphT, tensors=tensors, inputs=[x], outputs=[out], operators=ops, name=b"main")
    known = [
        _made(s.OperatorCodeT, builtinCode=code, deprecatedBuiltinCode=code, version=_version(code, s, dtype))
        for code in codes_of
    ]
    model = _made(s.ModelT, version=3, operatorCodes=known, subgraphs=[graph], buffers=buffers, description=b"a test's")
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def _version(code: int, s: Any, dtype: str) -> int:
    """int8 came to these operators with later versions."""
    later = {s.BuiltinOperator.FULLY_CONNECTED: 4, s.BuiltinOperator.SOFTMAX: 2, s.BuiltinOperator.LOGISTIC: 2}
    return later.get(code, 1) if dtype == "int8" else 1


def _made(kind: Any, **fields: Any) -> Any:
    one = kind()
    for name, value in fields.items():
        setattr(one, name, value)
    return one
