"""The options of targets, as values in Python or as text in a spec, checked before use."""

import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from dowse.errors import InputError, choose, count, nearest, positive
from dowse.settings import LARGEST_SIDE, Outputs
from dowse.wording import without_password

Layout = Literal["NCHW", "NHWC"]
AnyLayout = Literal["NCHW", "NHWC", "NHW"]
Arrays = Literal["torch", "numpy"]
PixelType = Literal["uint8", "float32", "float64", "float16"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a target; text is read as the type that each field declares."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Options by name, their values typed or text; an unknown name or unreadable value is an InputError."""
        hints = typing.get_type_hints(cls)
        known = {field.name: hints[field.name] for field in fields(cls)}
        for name in given:
            if name not in known:
                raise InputError(f"this target has no option {name!r}: {nearest(name, known)}")
        return cls(**{name: _read(name, value, known[name]) for name, value in given.items()})


@dataclass(frozen=True, kw_only=True)
class InputOptions(Options):
    """How images enter a model and scores leave it, where the model does not say so itself.

    Attributes:
        input: The name of the input tensor; None takes the model's only one.
        output: The name of the output tensor; None takes the model's first one.
        layout: "NCHW" or "NHWC"; None infers it from the model's input shape.
        scale: Pixels in [0, 1] are multiplied by it; None is 255 for 8-bit inputs and 1 for others.
        mean: One number or one for each channel, subtracted after scaling.
        std: One number or one for each channel, divided by after that.
    """

    input: str | None = None
    output: str | None = None
    layout: Layout | None = None
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.layout is not None:
            object.__setattr__(self, "layout", str(self.layout).upper())
            choose("layout", self.layout, typing.get_args(Layout))
        if self.scale is not None:
            positive(scale=self.scale)
        for value in self.std or ():
            positive(std=value)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """What is said of a model of this process instead of being found out; `dowse.targets.model.Model` explains it."""

    layout: AnyLayout | None = None
    dtype: PixelType | None = None
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    arrays: Arrays | None = None
    flat: bool | None = None
    call: str | None = None
    outputs: Outputs | None = None
    shape: Any = None

    def __post_init__(self) -> None:
        if self.layout is not None:
            object.__setattr__(self, "layout", str(self.layout).upper())
        words = {"layout": AnyLayout, "dtype": PixelType, "arrays": Arrays, "outputs": Outputs}
        for name, known in words.items():
            if getattr(self, name) is not None:
                choose(name, getattr(self, name), typing.get_args(known))
        for name in ("mean", "std"):
            value = getattr(self, name)
            if isinstance(value, int | float):
                object.__setattr__(self, name, (float(value),))
            elif value is not None:
                object.__setattr__(self, name, tuple(value))
        if self.scale is not None:
            positive(scale=self.scale)
        for value in self.std or ():
            positive(std=value)
        if self.shape is not None:
            text = self.shape if isinstance(self.shape, str) else "x".join(map(str, self.shape))
            object.__setattr__(self, "shape", parse_shape(text))


@dataclass(frozen=True, kw_only=True)
class OnnxOptions(InputOptions):
    """Options of `onnx:` targets.

    Attributes:
        threads: Threads of one forward pass; None takes as many as torch uses.
        size: The side of the images, where a torch target is exported (`onnx:dowse:NAME`); None takes its own.
    """

    threads: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threads is not None:
            count(threads=self.threads)
        if self.size is not None:
            count(size=self.size)


@dataclass(frozen=True, kw_only=True)
class TfliteOptions(InputOptions):
    """Options of `tflite:` targets.

    Attributes:
        threads: Threads of one forward pass; None takes as many as torch uses.
        outputs: What it answers with; None sees it in the file, else in its first answer.
    """

    threads: int | None = None
    outputs: Outputs | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threads is not None:
            count(threads=self.threads)
        if self.outputs is not None:
            choose("outputs", self.outputs, typing.get_args(Outputs))


@dataclass(frozen=True, kw_only=True)
class HttpOptions(InputOptions):
    """Options of `http://` and `https://` targets.

    Attributes:
        datatype: The input tensor's, "FP32", "FP16", "FP64" or "UINT8"; None takes the model's.
        binary: Whether tensors travel as bytes; None tries, and falls back to JSON.
        rows: The most rows of one request; None chooses by the image's size and the rate. A model of a fixed batch size
            gets requests of that size whatever is said here.
        connections: How many requests are under way at once.
        rate: The most rows a second, retries and what fills a fixed batch included; None does not limit.
        timeout: Seconds to wait for a connection, and for an answer.
        retries: How often a request is sent again after a passing fault.
        longest_wait: The most seconds to wait between two tries; a server that asks for more has failed.
        token_env: The environment variable that holds a bearer token.
        token_file: The file that holds a bearer token; it is read anew for every request.
    """

    datatype: str | None = None
    binary: bool | None = None
    rows: int | None = None
    connections: int = 4
    rate: float | None = None
    timeout: float = 30.0
    retries: int = 5
    longest_wait: float = 60.0
    token_env: str | None = None
    token_file: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        count(connections=self.connections)
        positive(timeout=self.timeout, longest_wait=self.longest_wait)
        if self.rows is not None:
            count(rows=self.rows)
        if self.rate is not None:
            positive(rate=self.rate)
        if self.retries < 0:
            raise InputError(f"retries must be 0 or more, got {self.retries!r}")
        if self.token_env is not None and self.token_file is not None:
            raise InputError("token_env= and token_file= both say where the token is: give one of them")


def parse_shape(text: str) -> tuple[int, int, int]:
    """(C, H, W) of "3x224x224" or "3×224×224"."""
    parts = re.split(r"[x×,]", text.strip())
    if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"a shape is written CxHxW, for example 3x224x224, got {text!r}")
    c, h, w = map(int, parts)
    if max(c, h, w) > LARGEST_SIDE:
        raise InputError(f"no side of an image may be larger than {LARGEST_SIDE}, got {text!r}")
    return c, h, w


def refuse_password(url: str) -> None:
    """Raise InputError if a URL holds a password, which would be written into stores and shown."""
    if without_password(url) != url:
        raise InputError("a URL must not hold a password: give a token with token_env=NAME or token_file=PATH")


def _read(name: str, value: Any, hint: Any) -> Any:
    """A value as its field wants it: text is converted, anything else is passed on."""
    if not isinstance(value, str):
        return value
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType] if _is_union(hint) else [hint]
    (kind,) = kinds
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[value.lower()]
        if kind in (int, float):
            return kind(value)
        if typing.get_origin(kind) is tuple:
            return tuple(float(part) for part in value.split(","))
    except (KeyError, ValueError):
        wanted = "numbers separated by commas" if typing.get_origin(kind) is tuple else kind.__name__
        raise InputError(f"option {name} must be {wanted}, got {value!r}") from None
    return value


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union)
