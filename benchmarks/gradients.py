"""What a surrogate's gradient costs, forward and backward apart: CPU milliseconds a row, one thread.

    OMP_NUM_THREADS=1 python -m benchmarks.gradients [NAME …] [--turns 10]

Each network is measured as it is loaded, with its batch norms folded, in its faster form (`surrogates.faster`) and with
the soft gradients of that (`surrogates.softened`), in passes of one row and of as many as share one; all by turns, so
that another load on the machine slows all of them.
"""

import argparse
import time

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.targets import noise_images
from dowse import models
from dowse.core.packing import shared_rows
from dowse.machine.cpu import channels_last, ensure_fast_malloc
from dowse.surrogates.faster import TOGETHER, faster, traced
from dowse.surrogates.folding import fold
from dowse.surrogates.softened import softened

NAMES = ("imagenet_efficientnet_lite0", "imagenet_mobilenetv2", "imagenet_resnet18", "cifar10_resnet32")


def forms(name: str) -> dict[str, nn.Module]:
    """The network in its forms."""
    net, side = models.load(name), models.spec(name).input_size
    folded = traced(net)
    fold(folded)
    fast = faster(net, (3, side, side))
    return {
        "as it is": net,
        "folded": channels_last(folded),
        "faster": fast,
        "soft": softened(fast, noise_images(1, side)),
    }


def once(net: nn.Module, points: Tensor) -> tuple[float, float]:
    """Seconds of the forward pass with its graph, and of the backward pass to the points."""
    x = points.clone().requires_grad_()
    start = time.thread_time()
    value = net(x)[:, 0].sum()
    between = time.thread_time()
    torch.autograd.grad(value, x)
    return between - start, time.thread_time() - between


def measured(name: str, turns: int) -> list[tuple[str, int, float, float]]:
    """Form, rows of a pass, milliseconds a row forward and backward: those of the best turn."""
    side = models.spec(name).input_size
    sizes = (1, TOGETHER) if shared_rows(3 * side * side) == 1 else (shared_rows(3 * side * side),)
    cases = [(form, net, noise_images(rows, side)) for form, net in forms(name).items() for rows in sizes]
    taken = [[once(net, points) for _, net, points in cases] for _ in range(turns + 1)][1:]
    found = []
    for (form, _, points), samples in zip(cases, zip(*taken, strict=True), strict=True):
        forward, backward = (1e3 * seconds / len(points) for seconds in min(samples, key=sum))
        found.append((form, len(points), forward, backward))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--turns", type=int, default=10)
    arguments = parser.parse_args()
    ensure_fast_malloc()
    torch.set_num_threads(1)
    found = Table("network", "form", "rows a pass", "forward", "backward", "both")
    for name in arguments.names:
        for form, rows, forward, backward in measured(name, arguments.turns):
            times = (f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}" for ms in (forward, backward, forward + backward))
            found.add_row(name, form, str(rows), *times)
    Console(width=120).print(found)


if __name__ == "__main__":
    main()
