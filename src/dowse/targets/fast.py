"""The fast path on a CPU: a torch network run by onnxruntime, where its answers are the same and come sooner."""

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor, nn

from dowse.core.calls import Calls
from dowse.core.inputs import check_pixels
from dowse.core.packing import default_batch_size, numbers_of_a_row, shared_rows
from dowse.core.same_bits import same_bits
from dowse.core.target import Target
from dowse.errors import InputError, choose, in_a_line
from dowse.targets.export import check_takes
from dowse.targets.export_cache import NotTracedError, traced_file
from dowse.targets.model import Model
from dowse.targets.onnx import OnnxTarget
from dowse.targets.options import ModelOptions
from dowse.targets.rows_per_pass import tune_rows
from dowse.targets.spec import BACKEND, open_target, parse_spec

TORCH, ONNXRUNTIME = "torch", "onnxruntime"
KINDS = ("dowse", "torchvision", "timm", "torch")
COMPARED = 4  # images of a run on which the two are compared
TOLERANCE = 1e-4  # between the scores of the two, relative to the largest score where that is above 1
FASTER = 1.1  # so many times as fast it must be, to be taken
WORTH = 20.0  # seconds of forward passes at most, below which a run is over before a choice has paid
GAIN = "pip install 'dowse[onnx]' makes such networks about twice as fast on a CPU"
NOISY = "if it is to be noisy, `repeats` averages its noise (all counted), and `verify` asks again about a success"


@dataclass(frozen=True)
class Choice:
    """What runs a torch network.

    Attributes:
        backend: TORCH or ONNXRUNTIME.
        words: What is to be said about it in a line, if anything.
        rows: The most rows of a pass, as they were tried; None leaves it to the image's size.
        target: The network as onnxruntime runs it, compared and open; None where torch does.
    """

    backend: str = TORCH
    words: str | None = None
    rows: int | None = None
    target: Target | None = field(default=None, compare=False)


def may_be_fast(spec: str) -> bool:
    """Whether onnxruntime may run a target at all: a network of torch with no defence in front, that nobody refused."""
    parsed = parse_spec(spec)
    wanted = parsed.options.get(BACKEND, os.environ.get("DOWSE_BACKEND", "auto"))
    choose(BACKEND, wanted, ("auto", "torch"))
    return wanted == "auto" and parsed.kind in KINDS and not parsed.defences


def choose_backend(spec: str, images: Tensor, rows: int, opened: Target | None = None) -> Choice:
    """Torch, or onnxruntime with a file that was compared with the network and timed beside it; and rows of a pass.

    Args:
        spec: A target that `may_be_fast`.
        images: The first images of the run, (n, C, H, W) float32 on the CPU.
        rows: The most rows that it will be asked about.
        opened: The target, where it is open already; None opens it for this.
    """
    opened = opened or open_target(spec)
    net = _network(opened)
    if net is None:
        return Choice()
    points = _with_extremes(images)
    try:
        start, expected = perf_counter(), _answer(net, points)
        middle, again = perf_counter(), _answer(net, points)
        seconds = min(middle - start, perf_counter() - middle) / len(points)
        usable = expected.ndim == 2 and expected.shape[1] > 1 and bool(expected.isfinite().all())
        same = torch.allclose(expected, again, rtol=1e-5, atol=1e-5)
    except Exception:  # whatever it is, the run will meet it and say it in its own words
        return Choice()
    if usable and not same:
        return Choice(words=f"torch runs {spec}, which answers the same images otherwise the second time: {NOISY}")
    if not usable or rows * seconds < WORTH:
        return Choice()
    if importlib.util.find_spec("onnxruntime") is None or importlib.util.find_spec("onnx") is None:
        return _tuned(net, images, TORCH, f"torch runs {spec}: {GAIN}")
    try:
        target, difference = _through_onnxruntime(
            _traced(spec, net, images.shape[1:]), net, points, steady=opened.steady
        )
        gain = _gain(net, target, images)
    except NotTracedError as error:
        return _tuned(net, images, TORCH, f"torch runs {spec}: {error}")
    except Exception as error:  # no export is owed, and what exporters and runtimes raise has no end
        return _tuned(net, images, TORCH, f"torch runs {spec}, which onnxruntime cannot: {in_a_line(error, 150)}")
    if not difference <= TOLERANCE:
        words = f"torch runs {spec}: through onnxruntime it would answer otherwise, by {difference:.1g}"
        return _tuned(net, images, TORCH, words)
    if gain < FASTER:
        return _tuned(net, images, TORCH, f"torch runs {spec}: through onnxruntime it is {gain:.2g} times as fast")
    chosen = _tuned(
        target,
        images,
        ONNXRUNTIME,
        f"onnxruntime runs {spec}, {gain:.2g} times as fast as torch: on the first {len(images)} images, noise, black "
        f"and white their scores differ by {difference:.0e} at most. #{BACKEND}=torch refuses",
    )
    return replace(chosen, target=target)


def _network(target: Target) -> nn.Module | None:
    """The torch network that a target is, taken as it stands; None where options or a protocol of its own say more."""
    return target.module if isinstance(target, Model) and target.options == ModelOptions() else None


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
    opened = open_target(spec)
    net = _network(opened)
    points = _with_extremes(like.detach().cpu().float().unsqueeze(0))
    return _compared(spec, net, points, partial(_traced, spec), steady=opened.steady, remedy=remedy)


def through_onnxruntime(net: nn.Module, images: Tensor) -> Target:
    """A torch network as onnxruntime runs it on a CPU, often twice as fast, once its answers were compared.

    `dowse.attack` asks a module itself, whatever counts or prints inside it; this is for a network that only computes.
    Its scores for the first four images, noise, black and white must be the network's to 1e-4. Surrogates stay modules.

    Args:
        net: The network, on the CPU, in single precision and eval mode.
        images: Some of those to be attacked, (n, C, H, W) in [0, 1]; more than four are not looked at.

    Returns:
        A target for `dowse.attack` and all that takes one.

    Raises:
        InputError: It cannot be traced, answers otherwise, or onnxruntime is not installed.

    >>> import dowse
    >>> net, x = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)).eval(), torch.rand(4, 3, 2, 2)
    >>> target = dowse.through_onnxruntime(net, x)  # doctest: +SKIP
    >>> dowse.attack(target, x, budget=10).queries  # doctest: +SKIP
    """
    check_pixels(images, rank=4)
    if not isinstance(net, nn.Module):
        raise InputError(f"onnxruntime can be handed an nn.Module, got {type(net).__name__}: give that to dowse.attack")
    if net.training:
        raise InputError("the network is in training mode: call net.eval() first")
    opened, remedy = open_target(net), "Hand the network itself to dowse.attack: torch runs it then"
    check_takes(net, (1, *images.shape[1:]))
    name = f"{type(net).__module__}.{type(net).__qualname__}"
    made = partial(traced_file, name, known=opened.steady, anew=not opened.steady)
    points = _with_extremes(images[:COMPARED].detach())
    return _compared("this network", net, points, made, steady=opened.steady, remedy=remedy)


def _compared(
    what: str, net: nn.Module | None, points: Tensor, made: Callable[..., Path], *, steady: bool, remedy: str
) -> Target:
    """A network's target, whose answers about points, (n, C, H, W), are the network's; InputError if it has none."""
    try:
        assert net is not None
        target, difference = _through_onnxruntime(made(net, points.shape[1:]), net, points, steady=steady)
    except NotTracedError as error:
        raise InputError(f"onnxruntime was given no file of {what}: {error}. {remedy}") from error
    except Exception as error:
        raise InputError(f"onnxruntime cannot run {what}: {in_a_line(error, 150)}. {remedy}") from error
    if not difference <= TOLERANCE:
        raise InputError(f"through onnxruntime {what} answers otherwise than torch, by {difference:.1g}. {remedy}")
    return target


def _traced(spec: str, net: nn.Module, shape: Sequence[int]) -> Path:
    """The file of a spec's network for images (C, H, W)."""
    parsed = parse_spec(spec)
    return traced_file(parsed.text, net, shape, known=parsed.kind == "dowse", anew=parsed.kind == "torch")


def _through_onnxruntime(file: Path, net: nn.Module, points: Tensor, *, steady: bool) -> tuple[Target, float]:
    """A network's target, and the largest difference of its scores to the network's at points, (n, C, H, W).

    A steady one has a thread a call, unless its rows mind who shares their pass: then they wait for company instead.
    """
    few = shared_rows(numbers_of_a_row(points))
    target = OnnxTarget(file, calls_at_once=torch.get_num_threads() if steady else 1)
    target.steady, target.exact = steady, steady and few > 1 and same_bits(target, points, few, range(1, few))
    if steady and few > 1 and not target.exact:
        target = OnnxTarget(file)
        target.steady = True
    return target, _difference(_answer(net, points), target, points)


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


def _gain(net: nn.Module, target: Target, images: Tensor) -> float:
    """How many times as fast as a module a target answers."""
    slow, fast = _race([net, target], images, [1, target.calls_at_once])
    return slow / fast


def _race(targets: Sequence[Target | nn.Module], images: Tensor, calls: Sequence[int]) -> list[float]:
    """Seconds a row of each, in passes as a run makes them, so many calls at once: the best of three after a warm-up.

    By turns, so that another load on the machine slows all of them.
    """
    rows = default_batch_size(images)
    points = images.repeat(-(-rows // len(images)), 1, 1, 1)[:rows]
    taken: list[list[float]] = []
    for _ in range(4):
        taken.append([])
        for target, at_once in zip(targets, calls, strict=True):
            together = Calls(at_once)
            start = perf_counter()
            together.all([partial(_answer, target, points)] * at_once)
            taken[-1].append((perf_counter() - start) / (rows * at_once))
            together.give_up()
    return [min(turns) for turns in zip(*taken, strict=True)]
