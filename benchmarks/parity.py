"""SPSA and ZOO beside independent implementations, on one CIFAR-10 classifier: success and queries side by side.

`python -m benchmarks.parity [--images 30]` prints a table, with the weights and images of $DOWSE_SHARED. It is no part
of the tests, and the two packages are no dependencies of Dowse; they ask for torchvision, which SPSA and ZOO do not
use, so install them without what they ask for and add the little that is needed:

    pip install --no-deps torchattacks==3.5.1 adversarial-robustness-toolbox==1.20.1
    pip install -c constraints.txt scikit-learn six tqdm requests

One ruler for all: an image is fooled when an adversarial iterate lies in the ball, and its queries are the rows asked
about up to and including that iterate, each iterate counting one row whether the program asks about it or not.

- SPSA: the same parameters in both programs, l∞ and the margin loss.
- ZOO: the same parameters, l2. The programs are not the same attack. The toolbox minimises ‖x − x0‖² + c·loss and
  does not know the ball. Its noise is clipped to the pixels' range, so that it can only brighten, and it is added to
  the iterate anew in each step; the second row leaves clip_values= out, which lifts the first of the two.
"""

import argparse
import importlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import dowse
from dowse import models
from dowse.images.sources import open_images
from dowse.machine.packages import shared_folder
from dowse.maths.geometry import Ball, contains, make_ball

SAMPLES, STEPS = 64, 40  # SPSA: directions a step, and steps
COORDINATES, ITERATIONS, WEIGHT = 128, 30, 10.0  # ZOO: coordinates a step, steps, and the toolbox's c
EPS_LINF = 8 / 255


@dataclass(frozen=True)
class Row:
    """What one program made of the images: the queries of each that was fooled, None for the others."""

    attack: str
    program: str
    queries: list[int | None]

    @property
    def fooled(self) -> list[int]:
        return [q for q in self.queries if q is not None]

    def cells(self) -> tuple[str, ...]:
        n = self.fooled
        mean = f"{statistics.fmean(n):.0f}" if n else "–"
        error = f"{statistics.stdev(n) / len(n) ** 0.5:.0f}" if len(n) > 1 else "–"
        median = f"{statistics.median(n):.0f}" if n else "–"
        return self.attack, self.program, f"{len(n)} of {len(self.queries)}", mean, error, median


class Fooled(Exception):  # noqa: N818  it is no error
    """Raised out of a program that does not stop by itself."""


class Recorder(nn.Module):
    """Counts rows about one image and stops the program at the first adversarial row inside the ball."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.eval()

    def watch(self, x: Tensor, label: int, ball: Ball) -> None:
        self.x, self.label, self.ball, self.rows = x, label, ball, 0

    def forward(self, points: Tensor) -> Tensor:
        with torch.no_grad():
            scores: Tensor = self.net(points)
        found = (scores.argmax(1) != self.label) & contains(self.ball, points, self.x)
        if found.any():
            self.rows += int(found.nonzero()[0]) + 1
            raise Fooled
        self.rows += len(points)
        return scores


def ours(net: nn.Module, images: Tensor, labels: Tensor, ball: Ball, budget: int, **options: Any) -> list[int | None]:
    result = dowse.attack(net, images, labels, norm=ball.norm, eps=ball.eps, loss="margin", budget=budget, **options)
    return [outcome.queries if outcome.success else None for outcome in result.outcomes]


def torchattacks_spsa(net: nn.Module, images: Tensor, labels: Tensor, ball: Ball) -> Iterator[int | None]:
    library = importlib.import_module("torchattacks")

    class Stopping(library.SPSA):  # type: ignore[misc, name-defined]
        """Looks at each iterate, which the library first does when all steps are done."""

        steps = 0

        def linf_clamp_(self, dx: Tensor, x: Tensor, eps: float) -> Tensor:
            dx = super().linf_clamp_(dx, x, eps)
            self.steps += 1
            with torch.no_grad():
                if bool((net(x + dx).argmax(1) != self.label).all()):
                    raise Fooled
            return dx

    for x, label in zip(images, labels, strict=True):
        attack = Stopping(net, eps=ball.eps, delta=0.01, lr=0.01, nb_iter=STEPS, nb_sample=SAMPLES)
        attack.label = int(label)
        try:
            attack(x[None], label[None])
            yield None
        except Fooled:
            yield 1 + attack.steps * (2 * SAMPLES + 1)


def toolbox_zoo(
    net: nn.Module, images: Tensor, labels: Tensor, ball: Ball, clip_values: tuple[float, float] | None
) -> Iterator[int | None]:
    attacks = importlib.import_module("art.attacks.evasion")
    classifiers = importlib.import_module("art.estimators.classification")
    recorder = Recorder(net)
    shape = tuple(images.shape[1:])
    classifier = classifiers.PyTorchClassifier(
        recorder, nn.CrossEntropyLoss(), input_shape=shape, nb_classes=10, clip_values=clip_values, device_type="cpu"
    )
    for x, label in zip(images, labels, strict=True):
        recorder.watch(x, int(label), ball)
        attack = attacks.ZooAttack(
            classifier, learning_rate=0.01, max_iter=ITERATIONS, binary_search_steps=1, initial_const=WEIGHT,
            abort_early=False, use_resize=False, use_importance=False, nb_parallel=COORDINATES, verbose=False,
        )  # fmt: skip
        np.random.seed(0)  # noqa: NPY002  the toolbox draws from the global stream
        try:
            attack.generate(x[None].numpy(), np.array([int(label)]))
            yield None
        except Fooled:
            yield 1 + recorder.rows


def rows(net: nn.Module, images: Tensor, labels: Tensor) -> Iterator[Callable[[], Row]]:
    """One program after the other."""
    box, ball = make_ball("linf", EPS_LINF, images[0].numel()), make_ball("l2", None, images[0].numel())
    spsa: dict[str, Any] = {"method": "spsa", "q": 2 * SAMPLES, "step": 0.01, "clip_probes": False}
    zoo: dict[str, Any] = {"method": "zoo", "coordinates": COORDINATES, "step": 0.01}
    given = (net, images, labels)
    yield lambda: Row("spsa, l∞", "dowse", ours(*given, box, 1 + STEPS * (2 * SAMPLES + 1), **spsa))
    yield lambda: Row("spsa, l∞", "torchattacks", list(torchattacks_spsa(*given, box)))
    yield lambda: Row("zoo, l2", "dowse", ours(*given, ball, 1 + ITERATIONS * (2 * COORDINATES + 1), **zoo))
    yield lambda: Row("zoo, l2", "toolbox", list(toolbox_zoo(*given, ball, (0.0, 1.0))))
    yield lambda: Row("zoo, l2", "toolbox, no clip_values", list(toolbox_zoo(*given, ball, None)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30, help="how many correctly classified images")
    wanted = parser.parse_args().images
    for module in ("torchattacks", "art.attacks.evasion", "art.estimators.classification"):
        importlib.import_module(module)  # before any work is done for nothing
    torch.set_num_threads(1)
    torch.manual_seed(0)  # torchattacks draws from the global stream
    net = models.load("cifar10_resnet20", channels_last=False)
    shared = shared_folder()
    found = open_images(shared / "data" / "cifar10_test1000.npz").load(4 * wanted)
    images, labels = found.images, found.labels
    with torch.no_grad():
        right = (net(images).argmax(1) == labels).nonzero().flatten()[:wanted]
    table = Table("attack", "program", "fooled", "mean queries", "± s.e.", "median", title=f"{len(right)} images")
    console = Console()
    for row in rows(net, images[right], labels[right]):
        done = row()
        console.print(*done.cells(), sep="  ")
        table.add_row(*done.cells())
    console.print(table)


if __name__ == "__main__":
    main()
