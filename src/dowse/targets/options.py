"""The options of targets, as values in Python or as text in a spec, checked before use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_origin

from dowse.errors import InputError, count, nearest, positive
from dowse.settings import LARGEST_SIDE, Outputs, Setting, settings_of
from dowse.wording import without_password

Layout = Literal["NCHW", "NHWC"]
AnyLayout = Literal["NCHW", "NHWC", "NHW"]
Arrays = Literal["torch", "numpy"]
PixelType = Literal["uint8", "float32", "float64", "float16"]


def _positive(**values: Any) -> None:
    """Each number of each value."""
    for name, numbers in values.items():
        for number in numbers:
            positive(**{name: number})


def _not_negative(**values: Any) -> None:
    for name, value in values.items():
        if value < 0:
            raise InputError(f"{name} must be 0 or more, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a target; text is read as the type that each field declares, and every value is checked."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Options by name, their values typed or text; an unknown name or unreadable value is an InputError."""
        kind: Any = cls
        known = settings_of(kind)
        for name in given:
            if name not in known:
                raise InputError(f"this target has no option {name!r}: {nearest(name, known)}")
        return cls(**{name: _read(name, value, known[name].spoken) for name, value in given.items()})

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, setting in settings_of(kind).items():
            if name == "layout" and (said := getattr(self, name)) is not None:
                object.__setattr__(self, name, str(said).upper())
            setting.examine(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class PixelOptions(Options):
    """What is done to the numbers of an image before a model gets them."""

    scale: Annotated[
        float | None,
        Setting("Pixels in [0, 1] are multiplied by it; None is 255 for 8-bit inputs and 1 for others.", positive),
    ] = None
    mean: Annotated[tuple[float, ...] | None, Setting("One number or one a channel, subtracted after scaling.")] = None
    std: Annotated[tuple[float, ...] | None, Setting("One number or one a channel, divided by then.", _positive)] = None


@dataclass(frozen=True, kw_only=True)
class InputOptions(PixelOptions):
    """How images enter a model and scores leave it, where the model does not say so itself."""

    input: Annotated[str | None, Setting("The name of the input tensor; None takes the model's only one.")] = None
    output: Annotated[str | None, Setting("The name of the output tensor; None takes the model's first one.")] = None
    layout: Annotated[Layout | None, Setting("None infers it from the model's input shape.")] = None


@dataclass(frozen=True, kw_only=True)
class ModelOptions(PixelOptions):
    """What is said of a model of this process instead of being found out."""

    layout: Annotated[AnyLayout | None, Setting("NHW is for images of one channel without its axis.")] = None
    dtype: Annotated[PixelType | None, Setting("Of uint8, pixels are multiplied by 255 and rounded.")] = None
    arrays: Annotated[Arrays | None, Setting("What images are handed over as.")] = None
    flat: Annotated[bool | None, Setting("Whether each image is a row of numbers, in the order of the layout.")] = None
    call: Annotated[str | None, Setting("The name of the method that is called.")] = None
    outputs: Annotated[Outputs | None, Setting("What it answers with; None sees it in the first answer.")] = None
    shape: Annotated[Any, Setting("(C, H, W) of the images it takes, or CxHxW.")] = None

    def __post_init__(self) -> None:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if value is not None:
                numbers = (float(value),) if isinstance(value, int | float) else tuple(value)
                object.__setattr__(self, name, numbers)
        super().__post_init__()
        if self.shape is not None:
            text = self.shape if isinstance(self.shape, str) else "x".join(map(str, self.shape))
            object.__setattr__(self, "shape", parse_shape(text))


@dataclass(frozen=True, kw_only=True)
class FileOptions(InputOptions):
    """Options of models in files, which run in this process."""

    threads: Annotated[int | None, Setting("Threads of one forward pass; None is as many as torch uses.", count)] = None


@dataclass(frozen=True, kw_only=True)
class OnnxOptions(FileOptions):
    """Options of `onnx:` targets."""

    size: Annotated[
        int | None,
        Setting(
            "The side of the images, where a torch target is exported (`onnx:dowse:NAME`); None is its own.", count
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TfliteOptions(FileOptions):
    """Options of `tflite:` targets."""

    outputs: Annotated[
        Outputs | None, Setting("What it answers with; None sees it in the file, else in its first answer.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class HttpOptions(InputOptions):
    """Options of `http://` and `https://` targets.

    A model of a fixed batch size gets requests of that size, whatever `rows` says.
    """

    datatype: Annotated[str | None, Setting("The input tensor's: FP32, FP16, FP64 or UINT8; None is the model's.")] = (
        None
    )
    binary: Annotated[bool | None, Setting("Whether tensors travel as bytes; None tries, and falls back to JSON.")] = (
        None
    )
    rows: Annotated[int | None, Setting("The most of one request; None is by the image's size and rate.", count)] = None
    connections: Annotated[int, Setting("How many requests are under way at once.", count)] = 4
    rate: Annotated[float | None, Setting("The most rows a second, retries and fillers included.", positive)] = None
    timeout: Annotated[float, Setting("Seconds to wait for a connection, and for an answer.", positive)] = 30.0
    retries: Annotated[int, Setting("How often a request is sent again after a passing fault.", _not_negative)] = 5
    longest_wait: Annotated[
        float, Setting("The most seconds between two tries; a server that asks for more has failed.", positive)
    ] = 60.0
    token_env: Annotated[str | None, Setting("The environment variable that holds a bearer token.")] = None
    token_file: Annotated[str | None, Setting("The file that holds one; it is read anew for every request.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
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


def _read(name: str, value: Any, kind: Any) -> Any:
    """A value as its field wants it: text is converted, anything else is passed on."""
    if not isinstance(value, str):
        return value
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[value.lower()]
        if kind in (int, float):
            return kind(value)
        if get_origin(kind) is tuple:
            return tuple(float(part) for part in value.split(","))
    except (KeyError, ValueError):
        wanted = "numbers separated by commas" if get_origin(kind) is tuple else kind.__name__
        raise InputError(f"option {name} must be {wanted}, got {value!r}") from None
    return value
