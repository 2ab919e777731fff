"""The fast path on a CPU: a torch network run by onnxruntime, where its answers are the same and come sooner."""

import hashlib
import importlib.util
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]

import dowse
from dowse.core.packing import default_batch_size
from dowse.core.target import Target
from dowse.errors import InputError, choose
from dowse.machine.files import replacing
from dowse.targets.export import INPUT, OUTPUT
from dowse.targets.exported import cache_folder
from dowse.targets.model import OF_THE_PROTOCOL
from dowse.targets.onnx import OnnxTarget
from dowse.targets.spec import BACKEND, Spec, parse_spec, resolve_target
from dowse.targets.tuning import tune_rows

TORCH, ONNXRUNTIME = "torch", "onnxruntime"
KINDS = ("dowse", "torchvision", "timm", "torch")
TOLERANCE = 1e-4  # between the scores of the two, relative to the largest score where that is above 1
FASTER = 1.1  # so many times as fast it must be, to be taken
WORTH = 20.0  # seconds of forward passes at most, below which a run is over before a choice has paid
GAIN = "pip install 'dowse[onnx]' makes such networks about twice as fast on a CPU"


@dataclass(frozen=True)
class Choice:
    """What runs a torch network.

    Attributes:
        backend: TORCH or ONNXRUNTIME.
        words: What is to be said about it in a line, if anything.
        rows: The most rows of a pass, as they were tried; None leaves it to the image's size.
    """

    backend: str = TORCH
    words: str | None = None
    rows: int | None = None


def may_be_fast(spec: str) -> bool:
    """Whether onnxruntime may run a target at all: a network of torch with no defence in front, that nobody refused."""
    parsed = parse_spec(spec)
    wanted = parsed.options.get(BACKEND, os.environ.get("DOWSE_BACKEND", "auto"))
    choose(BACKEND, wanted, ("auto", "torch"))
    return wanted == "auto" and parsed.kind in KINDS and not parsed.defences


def choose_backend(spec: str, images: Tensor, rows: int) -> Choice:
    """Torch, or onnxruntime with a file that was compared with the network and timed beside it; and rows of a pass.

    Args:
        spec: A target that `may_be_fast`.
        images: The first images of the run, (n, C, H, W) float32 on the CPU.
        rows: The most rows that it will be asked about.
    """
    net = resolve_target(spec)
    if not isinstance(net, nn.Module) or any(hasattr(net, name) for name in OF_THE_PROTOCOL):
        return Choice()  # it speaks for itself
    points = _with_extremes(images)
    try:
        expected, again, seconds = *(_answer(net, points) for _ in range(2)), _seconds(net, images)
        steady = expected.ndim == 2 and expected.shape[1] > 1 and torch.allclose(expected, again, rtol=1e-5, atol=1e-5)
    except Exception:  # whatever it is, the run will meet it and say it in its own words
        return Choice()
    if not steady or rows * seconds < WORTH:
        return Choice()
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
        return _tuned(net, images, TORCH, f"torch runs {spec}: {GAIN}")
    try:
        target, difference = _opened(spec, net, points)
        gain = seconds / _seconds(target, images)
    except Exception as error:  # no export is owed, and what exporters and runtimes raise has no end
        return _tuned(net, images, TORCH, f"torch runs {spec}, which onnxruntime cannot: {_line(error)}")
    if not difference <= TOLERANCE:
        words = f"torch runs {spec}: through onnxruntime it would answer otherwise, by {difference:.1g}"
        return _tuned(net, images, TORCH, words)
    if gain < FASTER:
        return _tuned(net, images, TORCH, f"torch runs {spec}: through onnxruntime it is {gain:.2g} times as fast")
    return _tuned(
        target,
        images,
        ONNXRUNTIME,
        f"onnxruntime runs {spec}, {gain:.2g} times as fast as torch: on the first {len(images)} images, noise, black "
        f"and white their scores differ by {difference:.0e} at most. #{BACKEND}=torch refuses",
    )


def _tuned(target: Target | nn.Module, images: Tensor, backend: str, words: str) -> Choice:
    """A choice with the rows of its passes, said in the same line where they are not the usual ones."""
    rows, gain = tune_rows(target, images)
    if gain > 1:
        words += f". Passes of {rows} rows are {gain:.3g} times as fast as the usual ones; --batch-size says otherwise"
    return Choice(backend, words, rows)


def open_fast(spec: str, like: Tensor) -> Target:
    """The target of a spec as onnxruntime runs it, compared with torch's on images like (C, H, W) once more.

    InputError where that cannot be: a run that began so does not go on otherwise. As with torch, a row's last bits may
    depend on how many rows a pass has and on nothing else (docs/decisions/0011).
    """
    remedy = "A run that was begun through onnxruntime goes on so: mend that, or begin anew in another folder (--out)"
    if not may_be_fast(spec):
        raise InputError(f"{spec} refuses onnxruntime. {remedy}")
    net = resolve_target(spec)
    try:
        assert isinstance(net, nn.Module)
        target, difference = _opened(spec, net, _with_extremes(like.detach().cpu().float().unsqueeze(0)))
    except Exception as error:
        raise InputError(f"onnxruntime cannot run {spec}: {_line(error)}. {remedy}") from error
    if not difference <= TOLERANCE:
        raise InputError(f"through onnxruntime {spec} answers otherwise than torch, by {difference:.1g}. {remedy}")
    return target


def _opened(spec: str, net: nn.Module, points: Tensor) -> tuple[Target, float]:
    """The target, and the largest difference of its scores to the network's at points, (n, C, H, W)."""
    target = OnnxTarget(traced_file(spec, net, points.shape[1:]))
    target.steady = bool(getattr(net, "steady", False))
    return target, _difference(_answer(net, points), target, points)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:150]}"


def traced_file(spec: str, net: nn.Module, shape: Sequence[int]) -> Path:
    """The ONNX file of a network for images (C, H, W), found in the cache by its weights, or written.

    A user's own code may change where no weight does, so its network is written anew each time. A network that looks at
    values to decide what it does is an InputError: its trace would hold one of its ways only.
    """
    parsed = parse_spec(spec)
    file = cache_folder() / f"traced-{_key(parsed, net, shape)}.onnx"
    if not file.is_file() or parsed.kind == "torch":
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as partial:
            _trace(net, partial, shape, known=parsed.kind == "dowse")
    return file


def _key(spec: Spec, net: nn.Module, shape: Sequence[int]) -> str:
    digest = hashlib.blake2b(digest_size=12)
    digest.update(repr((spec.text, tuple(shape), torch.__version__, dowse.__version__)).encode())
    for name, value in net.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _trace(net: nn.Module, path: Path, shape: Sequence[int], *, known: bool) -> None:
    """Write a network; `known` are the built-in ones, which look at sizes and never at values."""
    with warnings.catch_warnings(record=True) as heard:  # an error raised in the tracer's C++ would be another's words
        warnings.simplefilter("always")
        torch.onnx.export(
            net, (torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)),), str(path), dynamo=False,
            input_names=[INPUT], output_names=[OUTPUT], dynamic_axes={INPUT: {0: "n"}, OUTPUT: {0: "n"}},
        )  # fmt: skip
    doubts = [one.message for one in heard if issubclass(one.category, TracerWarning)]
    if doubts and not known:
        raise InputError(f"it looks at values to decide what it does: {doubts[0]}")


def _with_extremes(images: Tensor) -> Tensor:
    """Images, (n, *s), and beside them two of noise, a black one and a white one, (n + 4, *s)."""
    like = images[:1]
    noise = torch.rand((2, *images.shape[1:]), generator=torch.Generator().manual_seed(0))
    return torch.cat([images, noise, torch.zeros_like(like), torch.ones_like(like)])


def _answer(target: Target | nn.Module, points: Tensor) -> Tensor:
    with torch.no_grad():
        scores: Tensor = target(points)
    return scores


def _difference(expected: Tensor, target: Target, points: Tensor) -> float:
    """The largest difference to the scores expected, (n, K), asked together and the first alone; inf if not finite."""
    together, alone = _answer(target, points), _answer(target, points[:1])
    if together.shape != expected.shape or not bool(expected.isfinite().all()):
        return float("inf")
    scale = expected.abs().max().clamp_min(1)
    found = float(torch.maximum((together - expected).abs().max(), (alone - expected[:1]).abs().max()) / scale)
    return found if found == found else float("inf")


def _seconds(target: Target | nn.Module, images: Tensor) -> float:
    """Seconds a row, in passes of the size that a run makes: the best of three after one that warms up."""
    rows = default_batch_size(images)
    points = images.repeat(-(-rows // len(images)), 1, 1, 1)[:rows]
    best = float("inf")
    for _ in range(4):
        start = perf_counter()
        _answer(target, points)
        best = min(best, perf_counter() - start)
    return best / rows
