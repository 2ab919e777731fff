"""The Open Inference Protocol (V2) on the wire: tensors as JSON or in the binary extension, and a model's metadata."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

JSON_BYTES = "Inference-Header-Content-Length"
DATATYPES: dict[str, np.dtype[Any]] = {
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}


class WireError(ValueError):
    """What came over the wire is not what the protocol says; the message says what came instead."""


class Message(NamedTuple):
    """The body of a request or a response and the headers that belong to it."""

    body: bytes
    headers: Mapping[str, str]


class TensorSpec(NamedTuple):
    """A tensor as a model's metadata describes it; a size of -1 in the shape is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ModelMetadata:
    """What `GET /v2/models/NAME` says of a model; servers may leave either list empty."""

    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()

    @classmethod
    def read(cls, body: bytes) -> "ModelMetadata":
        """The metadata of a response's body; a WireError if it is none."""
        said = _object(body)
        return cls(_tensor_specs(said.get("inputs")), _tensor_specs(said.get("outputs")))


def encode_request(array: Array, name: str, datatype: str, *, binary: bool, output: str | None = None) -> Message:
    """A request about one input tensor.

    Args:
        array: The rows, (n, *s), of the dtype of DATATYPES[datatype].
        name: The input's name.
        datatype: One of DATATYPES.
        binary: Whether the numbers follow the JSON as bytes, little-endian and row by row, and are wanted back so.
        output: The only output wanted; None leaves it to the server.
    """
    rows = np.ascontiguousarray(array, dtype=DATATYPES[datatype])
    if not binary:
        request = _request(rows.shape, name, datatype, output)
        request["inputs"][0]["data"] = rows.ravel().tolist()
        return Message(json.dumps(request).encode(), {"Content-Type": "application/json"})
    head = _head(rows.shape, rows.nbytes, name, datatype, output)
    return Message(head + rows.tobytes(), {"Content-Type": "application/octet-stream", JSON_BYTES: str(len(head))})


def _request(shape: tuple[int, ...], name: str, datatype: str, output: str | None) -> dict[str, Any]:
    request: dict[str, Any] = {"inputs": [{"name": name, "shape": list(shape), "datatype": datatype}]}
    if output is not None:
        request["outputs"] = [{"name": output}]
    return request


@lru_cache(maxsize=256)
def _head(shape: tuple[int, ...], size: int, name: str, datatype: str, output: str | None) -> bytes:
    """The JSON in front of the bytes of a tensor; most requests of a run have the same."""
    request = _request(shape, name, datatype, output)
    request["inputs"][0]["parameters"] = {"binary_data_size": size}
    request["parameters"] = {"binary_data_output": True}
    return json.dumps(request).encode()


def decode_response(message: Message, output: str | None = None) -> Array:
    """The scores of a response, float64 of the shape it says; a WireError if there are none.

    Args:
        message: What came, JSON or binary; the headers may be in small letters.
        output: The output to look for; None takes the only one there is.
    """
    head, tail = _split(message)
    response = _object(head)
    if "error" in response:
        raise WireError(f"it answered with the error {str(response['error'])[:200]!r}")
    outputs = response.get("outputs")
    if not isinstance(outputs, list) or not all(isinstance(tensor, dict) for tensor in outputs):
        raise WireError(f"it answered without a list of outputs: {_excerpt(head)}")
    wanted = None
    position = 0
    for tensor in outputs:
        size = _binary_size(tensor)
        data = tail[position : position + size]
        position += size
        if output is None or tensor.get("name") == output:
            if wanted is not None:
                raise WireError(f"it answered with several outputs, {_names(outputs)}: say which with output=NAME")
            wanted = tensor, data
    if position != len(tail):
        raise WireError(f"it announced {position} bytes of tensors, {len(tail)} came")
    if wanted is None:
        raise WireError(f"it answered with the outputs {_names(outputs) or 'none'}, not {output or 'with one'}")
    return _numbers(*wanted)


def _split(message: Message) -> tuple[bytes, bytes]:
    """The JSON and the bytes behind it."""
    said = message.headers.get(JSON_BYTES, message.headers.get(JSON_BYTES.lower()))
    if said is None:
        return message.body, b""
    if not said.isdecimal() or int(said) > len(message.body):
        raise WireError(f"it says {JSON_BYTES}: {said!r} of a body of {len(message.body)} bytes")
    return message.body[: int(said)], message.body[int(said) :]


def _numbers(tensor: Mapping[str, Any], data: bytes) -> Array:
    """The numbers of one output, float64 of the shape it says; null, as some servers write NaN, is NaN."""
    shape, datatype = tensor.get("shape"), tensor.get("datatype")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise WireError(f"it answered with a tensor of shape {shape!r}")
    if datatype not in DATATYPES:
        raise WireError(f"it answered with a tensor of {datatype!r}: scores are numbers, one of {', '.join(DATATYPES)}")
    values: Array
    try:
        if _is_binary(tensor):
            values = np.frombuffer(data, DATATYPES[datatype]).astype(np.float64)
        else:
            values = np.asarray(tensor.get("data", []), dtype=np.float64)
        return values.reshape(shape)
    except (ValueError, TypeError) as error:
        raise WireError(f"it answered with a tensor of shape {shape} whose data do not fit: {error}") from None


def _is_binary(tensor: Mapping[str, Any]) -> bool:
    parameters = tensor.get("parameters")
    return isinstance(parameters, dict) and "binary_data_size" in parameters


def _binary_size(tensor: Mapping[str, Any]) -> int:
    if not _is_binary(tensor):
        return 0
    size = tensor["parameters"]["binary_data_size"]
    if type(size) is not int or size < 0:
        raise WireError(f"it answered with binary_data_size {size!r}")
    return size


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError(f"it did not answer with JSON: {_excerpt(text)}") from None
    if not isinstance(value, dict):
        raise WireError(f"it answered with JSON that is no object: {_excerpt(text)}")
    return value


def _tensor_specs(said: Any) -> tuple[TensorSpec, ...]:
    """The tensors of a list in the metadata; None and null are an empty list."""
    specs = []
    for tensor in said or ():
        try:
            name, datatype, shape = tensor["name"], tensor["datatype"], tuple(int(size) for size in tensor["shape"])
        except (KeyError, TypeError, ValueError):
            raise WireError(f"its metadata describe a tensor as {str(tensor)[:200]}") from None
        specs.append(TensorSpec(str(name), str(datatype), shape))
    return tuple(specs)


def _names(outputs: list[dict[str, Any]]) -> str:
    return ", ".join(repr(tensor.get("name")) for tensor in outputs)


def _excerpt(text: bytes) -> str:
    return repr(text[:80].decode(errors="replace"))
