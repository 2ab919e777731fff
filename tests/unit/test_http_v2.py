"""The protocol on the wire: what we write, a reader of our own reads, and the other way round; nonsense is refused."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dowse.targets.http.inference_protocol import (
    DATATYPES,
    JSON_BYTES,
    Message,
    ModelMetadata,
    WireError,
    decode_response,
    encode_request,
)

SHAPES = npst.array_shapes(min_dims=2, max_dims=4, max_side=4)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, Any]:
    datatype = draw(st.sampled_from(sorted(DATATYPES)))
    return datatype, draw(npst.arrays(DATATYPES[datatype], SHAPES))


def read_request(message: Message) -> tuple[Any, dict[str, Any]]:
    """The input tensor and the JSON of a request, read without the code under test."""
    size = message.headers.get("Inference-Header-Content-Length")
    head = json.loads(message.body if size is None else message.body[: int(size)])
    (tensor,) = head["inputs"]
    dtype = DATATYPES[tensor["datatype"]]
    if size is None:
        return np.array(tensor["data"], np.float64 if dtype.kind == "f" else dtype).astype(dtype), head
    data = message.body[int(size) :]
    assert len(data) == tensor["parameters"]["binary_data_size"]
    return np.frombuffer(data, dtype), head


def response(array: Any, datatype: str, *, binary: bool, name: str = "scores") -> tuple[dict[str, Any], bytes]:
    tensor: dict[str, Any] = {"name": name, "shape": list(array.shape), "datatype": datatype}
    if not binary:
        return {**tensor, "data": array.tolist()}, b""
    data = array.astype(DATATYPES[datatype]).tobytes()
    return {**tensor, "parameters": {"binary_data_size": len(data)}}, data


def written(*tensors: tuple[dict[str, Any], bytes]) -> Message:
    head = json.dumps({"model_name": "net", "outputs": [tensor for tensor, _ in tensors]}).encode()
    tail = b"".join(data for _, data in tensors)
    return Message(head + tail, {JSON_BYTES: str(len(head))} if tail else {})


@given(tensors(), st.booleans())
def test_a_request_carries_every_bit(tensor: tuple[str, Any], binary: bool) -> None:
    datatype, array = tensor
    values, head = read_request(encode_request(array, "image", datatype, binary=binary))
    said = head["inputs"][0]
    assert (said["name"], said["datatype"], said["shape"]) == ("image", datatype, list(array.shape))
    np.testing.assert_array_equal(values.reshape(array.shape), array)
    assert values.dtype == array.dtype
    assert head.get("parameters") == ({"binary_data_output": True} if binary else None)


def test_a_request_can_ask_for_one_output_and_takes_strided_rows() -> None:
    array = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4).transpose(0, 2, 3, 1)
    values, head = read_request(encode_request(array, "image", "FP32", binary=True, output="logits"))
    assert head["outputs"] == [{"name": "logits"}]
    np.testing.assert_array_equal(values.reshape(1, 3, 4, 2), array)


@given(tensors(), st.booleans())
def test_a_response_is_read_to_the_last_bit(tensor: tuple[str, Any], binary: bool) -> None:
    datatype, array = tensor
    values = decode_response(written(response(array, datatype, binary=binary)))
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, array.astype(np.float64))


@given(st.lists(tensors(), min_size=2, max_size=4), st.data())
def test_one_output_is_found_among_several_json_and_binary_mixed(
    many: list[tuple[str, Any]], data: st.DataObject
) -> None:
    tensors = [
        response(array, datatype, binary=data.draw(st.booleans()), name=f"output{i}")
        for i, (datatype, array) in enumerate(many)
    ]
    wanted = data.draw(st.integers(0, len(many) - 1))
    np.testing.assert_array_equal(decode_response(written(*tensors), f"output{wanted}"), many[wanted][1].astype(float))
    with pytest.raises(WireError, match=r"several outputs.*output=NAME"):
        decode_response(written(*tensors))
    with pytest.raises(WireError, match="not other"):
        decode_response(written(*tensors), "other")


def test_null_and_nan_are_nan() -> None:
    for word in ("null", "NaN"):
        body = b'{"outputs": [{"name": "s", "datatype": "FP32", "shape": [1, 3], "data": [1, %s, Infinity]}]}'
        values = decode_response(Message(body % word.encode(), {}))
        np.testing.assert_array_equal(values, [[1, np.nan, np.inf]])


GOOD = {"name": "s", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        "{}",
        '{"outputs": 3}',
        '{"outputs": [1]}',
        '{"outputs": []}',
        '{"error": "out of memory"}',
        json.dumps({"outputs": [{**GOOD, "shape": [2, 2]}]}),
        json.dumps({"outputs": [{**GOOD, "shape": [-1, 2]}]}),
        json.dumps({"outputs": [{**GOOD, "shape": "two"}]}),
        json.dumps({"outputs": [{**GOOD, "datatype": "BYTES"}]}),
        json.dumps({"outputs": [{**GOOD, "data": ["cat", "dog"]}]}),
        json.dumps({"outputs": [{**GOOD, "data": [[1], [2, 3]]}]}),
        json.dumps({"outputs": [{**GOOD, "data": {"a": 1}}]}),
        json.dumps({"outputs": [{**GOOD, "data": None}]}),
        json.dumps({"outputs": [{**GOOD, "parameters": {"binary_data_size": -1}}]}),
        json.dumps({"outputs": [{**GOOD, "parameters": {"binary_data_size": 8}}]}),
    ],
)
def test_nonsense_is_refused_in_words(said: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_response(Message(said.encode(), {}))
    assert 10 < len(str(caught.value)) < 400


@pytest.mark.parametrize("size", ["7000", "-1", "x", ""])
def test_a_wrong_length_of_the_json_is_refused(size: str) -> None:
    with pytest.raises(WireError, match=JSON_BYTES):
        decode_response(Message(b"{}", {JSON_BYTES: size}))


def test_bytes_that_nobody_announced_are_refused() -> None:
    head = json.dumps({"outputs": [GOOD]}).encode()
    with pytest.raises(WireError, match="announced 0 bytes of tensors, 3 came"):
        decode_response(Message(head + b"abc", {JSON_BYTES: str(len(head))}))


@given(st.binary(max_size=60), st.one_of(st.none(), st.integers(-2, 70).map(str)))
def test_any_bytes_are_an_answer_or_a_wire_error(body: bytes, size: str | None) -> None:
    with pytest.raises(WireError):
        decode_response(Message(body, {} if size is None else {JSON_BYTES: size}))


def test_metadata_are_read_and_may_be_empty() -> None:
    body = b'{"name": "net", "inputs": [{"name": "a", "datatype": "FP32", "shape": [-1, 3]}], "outputs": null}'
    metadata = ModelMetadata.read(body)
    assert metadata.inputs[0] == ("a", "FP32", (-1, 3))
    assert metadata.outputs == ()
    assert ModelMetadata.read(b"{}") == ModelMetadata()
    for wrong in (b"<html>", b"[]", b'{"inputs": [{"name": "a"}]}', b'{"inputs": [7]}'):
        with pytest.raises(WireError):
            ModelMetadata.read(wrong)
