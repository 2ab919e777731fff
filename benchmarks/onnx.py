"""What an ONNX file gains over the eager network it was exported from: queries a second, and whether they agree."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.figure import Figure, seconds
from benchmarks.targets import imagenet_target, noise_images
from dowse.core.packing import default_batch_size
from dowse.core.target import TargetLike
from dowse.targets import resolve_target
from dowse.targets.export import export_onnx

REPEATS = 3
ROWS = 96


def figures() -> list[Figure]:
    """Both are asked as a run asks them, in batches of the default size, taking turns batch by batch."""
    net, images = imagenet_target(), noise_images(8, 224)
    with tempfile.TemporaryDirectory() as folder:
        made = export_onnx(net, Path(folder) / "mobilenetv2.onnx", images.shape[1:])
        file = resolve_target(f"onnx:{made.path}")
        with torch.no_grad():
            difference = float((file(images) - net(images)).abs().max())
        batch = images[: default_batch_size(images)]
        _race(net, file, batch)
        times = [_race(net, file, batch) for _ in range(REPEATS)]
    eager, fast = (ROWS / min(times_of) for times_of in zip(*times, strict=True))
    speeds = f"{fast:.0f} against {eager:.0f} queries a second with {torch.get_num_threads()} thread"
    return [
        Figure("onnx over eager at 3×224×224, MobileNetV2", [a / b for a, b in times], "at least", 1.3, speeds),
        Figure("largest difference of onnx to eager, in 1e-4", [difference / 1e-4], "at most", 1.0),
    ]


def _race(net: TargetLike, file: TargetLike, batch: Tensor) -> tuple[float, float]:
    """Seconds that each needs for ROWS rows; by turns, so that another load on the machine slows both."""
    eager = fast = 0.0
    with torch.no_grad():
        for _ in range(0, ROWS, len(batch)):
            eager += seconds(lambda: net(batch))
            fast += seconds(lambda: file(batch))
    return eager, fast


def main() -> None:
    for figure in figures():
        print(figure)


if __name__ == "__main__":
    main()
