"""What the same method costs in other programs: CPU seconds of an image and of 1,000 queries, side by side.

    OMP_NUM_THREADS=1 python -m benchmarks.peers [--bandits main.py] [--images 64] [--steps 10]
        [--only 'square, linf'] [--leave-out toolbox] [--net imagenet_mobilenetv2]
    python -m benchmarks.peers --wall …

One network of $DOWSE_SHARED, the same images, the same number of steps. With one thread CPU seconds are compared; with
--wall the seconds that a user waits, where everybody has all cores and uses them as it does by itself. The balls
are so small that nobody is fooled, so that every program does all its steps with all images and nothing hangs on luck.
Programs take turns, and each ratio is between runs of the same turn. It is no part of the tests, and the packages are
no dependencies of Dowse:

    pip install --no-deps torchattacks==3.5.1 adversarial-robustness-toolbox==1.20.1
    pip install -c constraints.txt scikit-learn six tqdm requests
    git clone https://github.com/MadryLab/blackbox-bandits     # its src/main.py is what --bandits names

The authors' Bandits are for CUDA and torchvision. What attacks is run as it is, without its calls of cuda() and with
no normalisation of its own, since the network has one. What came out stands in benchmarks/peers.md.
"""

import argparse
import contextlib
import importlib
import io
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import dowse
from benchmarks.figure import cpu_seconds, seconds
from dowse import models
from dowse.images.sources import open_images
from dowse.machine.cpu import usable_cores
from dowse.machine.packages import shared_folder
from dowse.settings import Norm
from dowse.targets.fast import open_fast

SETS = {"cifar10_resnet20": "cifar10_test1000.npz", "imagenet_mobilenetv2": "nips17_dev500"}  # images of each network
EPS: dict[Norm, float] = {"linf": 1e-4, "l2": 1e-3}
SAMPLES = 8  # SPSA's directions a step, two rows each
REPEATS = 3


class Counting(nn.Module):
    """Counts the rows that a network answers, as a program without Dowse asks them."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.rows = net, 0
        self.eval()

    def forward(self, points: Tensor) -> Tensor:
        self.rows += len(points)
        scores: Tensor = self.net(points)
        return scores


@dataclass
class Program:
    """One program at one method.

    Attributes:
        method: Which, and in which norm.
        name: Whose.
        run: Attacks all images; returns the queries that the program itself counts, of all of them.
        net: Counts what it really asks; None for Dowse, which asks what it counts.
        seconds: What each run took.
    """

    method: str
    name: str
    run: Callable[[], int]
    net: Counting | None = None
    queries: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def ours(self) -> bool:
        return self.name.startswith("dowse")

    def measure(self, clock: Callable[[Callable[[], None]], float]) -> None:
        """Run once more."""
        if self.net is not None:
            self.net.rows = 0

        def work() -> None:
            self.queries = self.run()

        self.seconds.append(clock(work))


@dataclass(frozen=True)
class Images:
    """What is attacked: images (n, C, H, W), labels (n,), how many steps, and the network's name."""

    x: Tensor
    y: Tensor
    steps: int
    net: str

    @property
    def classes(self) -> int:
        return 10 if self.net.startswith("cifar10") else 1000


def dowse_programs(method: str, norm: Norm, budget: int, net: nn.Module, data: Images, **options: Any) -> list[Program]:
    """Dowse with the network as a module, and as `dowse run` opens it by its name."""
    targets = {"dowse, the module": net, "dowse, by name": open_fast(f"dowse:{data.net}", data.x[0])}

    def attacker(target: Any) -> Callable[[], int]:
        def run() -> int:
            result = dowse.attack(
                target, data.x, data.y, method=method, norm=norm, eps=EPS[norm], budget=budget,
                concurrency=len(data.x), **options,
            )  # fmt: skip
            return int(result.queries.sum())

        return run

    return [Program(f"{method}, {norm}", name, attacker(target)) for name, target in targets.items()]


def square(norm: Norm, net: nn.Module, data: Images, leave_out: str | None) -> Iterator[Program]:
    """Square: one query a step, after those of the image and of its start; what is left out need not be installed."""
    yield from dowse_programs("square", norm, 2 + data.steps, net, data)
    if leave_out != "torchattacks":
        yield torchattacks_square(norm, net, data)
    if leave_out != "toolbox":
        yield toolbox_square(norm, net, data)


def torchattacks_square(norm: Norm, net: nn.Module, data: Images) -> Program:
    library, n = importlib.import_module("torchattacks"), len(data.x)
    counting = Counting(net)
    theirs = library.Square(
        counting, norm={"linf": "Linf", "l2": "L2"}[norm], eps=EPS[norm], n_queries=data.steps, p_init=0.05
    )

    def run_torchattacks() -> int:
        theirs(data.x, data.y)
        return n * (2 + data.steps)

    return Program(f"square, {norm}", "torchattacks", run_torchattacks, counting)


def toolbox_square(norm: Norm, net: nn.Module, data: Images) -> Program:
    n = len(data.x)
    attacks = importlib.import_module("art.attacks.evasion")
    classifiers = importlib.import_module("art.estimators.classification")
    counted = Counting(net)
    classifier = classifiers.PyTorchClassifier(
        counted, nn.CrossEntropyLoss(), input_shape=tuple(data.x.shape[1:]), nb_classes=data.classes,
        clip_values=(0.0, 1.0), device_type="cpu",
    )  # fmt: skip
    toolbox = attacks.SquareAttack(
        classifier, norm=np.inf if norm == "linf" else 2, max_iter=data.steps, eps=EPS[norm], p_init=0.05,
        batch_size=n, verbose=False,
    )  # fmt: skip

    def run_toolbox() -> int:
        toolbox.generate(data.x.numpy().copy(), data.y.numpy())
        return n * (2 + data.steps)

    return Program(f"square, {norm}", "toolbox", run_toolbox, counted)


def spsa(net: nn.Module, data: Images) -> Iterator[Program]:
    """SPSA: the same directions a step in both programs; ours asks about each iterate too."""
    steps = max(1, data.steps // SAMPLES)
    yield from dowse_programs("spsa", "linf", 1 + steps * (2 * SAMPLES + 1), net, data, q=2 * SAMPLES, loss="margin")
    library, counting = importlib.import_module("torchattacks"), Counting(net)
    theirs = library.SPSA(counting, eps=EPS["linf"], nb_iter=steps, nb_sample=SAMPLES, max_batch_size=SAMPLES)

    def run() -> int:
        theirs(data.x, data.y)
        return len(data.x) * steps * 2 * SAMPLES

    yield Program("spsa, linf", "torchattacks", run, counting)


def bandits(norm: Norm, net: nn.Module, data: Images, file: Path | None) -> Iterator[Program]:
    """Bandits: two probes a step and a look, which ours counts and the authors' code does not."""
    yield from dowse_programs("bandits", norm, 1 + 3 * data.steps, net, data)
    if file is None:
        return
    attack, counting = authors_bandits(file), Counting(net)
    rates = {"linf": (1.0, 0.1, 100.0, 0.2), "l2": (0.01, 0.01, 0.1, 0.1)}[norm]
    exploration, probe, online, step = rates
    settings = SimpleNamespace(
        tiling=False, batch_size=len(data.x), mode=norm, epsilon=EPS[norm], max_queries=2 * data.steps + 1,
        gradient_iters=1, nes=False, exploration=exploration, fd_eta=probe, online_lr=online,
        image_lr=step * EPS[norm], log_progress=False,
    )  # fmt: skip

    def run() -> int:
        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
            found = attack(data.x.clone(), data.y, settings, counting, data.x.shape[-1])
        return int(found["all_queries"].sum())

    yield Program(f"bandits, {norm}", "authors", run, counting)


def authors_bandits(file: Path) -> Callable[..., dict[str, Any]]:
    """`make_adversarial_examples` of the authors' file, on the CPU."""
    source = file.read_text()
    text = source[source.index("def norm(t)") : source.index("def main(args")].replace(".cuda()", "")
    as_it_is = SimpleNamespace(normalize=lambda image, mean, std: image)
    space: dict[str, Any] = {"ch": torch, "Upsample": nn.Upsample, "F": as_it_is, "pdb": None}
    exec(compile(text, str(file), "exec"), space)
    attack: Callable[..., dict[str, Any]] = space["make_adversarial_examples"]
    return attack


def every_program(
    net: nn.Module, data: Images, file: Path | None, only: str, leave_out: str | None
) -> Iterator[Program]:
    """All programs of the methods whose names begin with `only`, method by method, but one."""
    methods: dict[str, Callable[[], Iterator[Program]]] = {
        "square, linf": lambda: square("linf", net, data, leave_out),
        "bandits, linf": lambda: bandits("linf", net, data, file),
        "square, l2": lambda: square("l2", net, data, leave_out),
        "bandits, l2": lambda: bandits("l2", net, data, file),
        "spsa, linf": lambda: spsa(net, data),
    }
    for name, programs in methods.items():
        if name.startswith(only):
            yield from programs()


def table(programs: list[Program], images: int) -> Table:
    """A line for each program, with what Dowse takes for every second of it: median, least and most of the repeats."""
    found = Table("method", "program", "queries", "rows", "ms an image", "s for 1,000 queries", "dowse, module",
                  "dowse, by name", title=f"{images} images, {REPEATS} repeats")  # fmt: skip
    for one in programs:
        rows = one.queries if one.net is None else one.net.rows
        median = statistics.median(one.seconds)
        ours = [other for other in programs if other.ours and other.method == one.method]
        ratios = ["" if one.ours else _ratio(mine, one) for mine in ours]
        found.add_row(
            one.method, one.name, f"{one.queries / images:.0f}", f"{rows / images:.0f}", f"{median / images * 1e3:.1f}",
            f"{median / one.queries * 1e3:.2f}", *ratios,
        )  # fmt: skip
    return found


def _ratio(mine: Program, theirs: Program) -> str:
    ratios = [a / b for a, b in zip(mine.seconds, theirs.seconds, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=64, help="how many correctly classified images, all at once")
    parser.add_argument("--steps", type=int, default=10, help="steps of each attack")
    parser.add_argument("--bandits", type=Path, help="src/main.py of the authors' Bandits")
    parser.add_argument("--only", default="", help="what begins so: square, 'square, linf', bandits, spsa")
    parser.add_argument("--leave-out", help="a program: toolbox, torchattacks")
    parser.add_argument("--net", default="cifar10_resnet20", choices=SETS, help="what is attacked")
    parser.add_argument("--wall", action="store_true", help="seconds of a clock, with all cores; CPU seconds otherwise")
    said = parser.parse_args()
    torch.set_num_threads(usable_cores() if said.wall else 1)
    net, side = models.load(said.net), 32 if said.net.startswith("cifar10") else 224
    found = open_images(shared_folder() / "data" / SETS[said.net]).load(2 * said.images, size=side)
    with torch.no_grad():
        right = (net(found.images).argmax(1) == found.labels).nonzero().flatten()[: said.images]
    data = Images(found.images[right], found.labels[right], said.steps, said.net)
    every = every_program(net, data, said.bandits, said.only, said.leave_out)
    programs = [one for one in every if one.name != said.leave_out]
    console = Console(width=140)
    for _ in range(REPEATS):
        for one in programs:
            one.measure(seconds if said.wall else cpu_seconds)
            console.print(one.method, one.name, f"{one.seconds[-1]:.2f} s", sep="  ")
    console.print(table(programs, len(data.x)))


if __name__ == "__main__":
    main()
