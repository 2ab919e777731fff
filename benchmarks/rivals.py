"""The rivals side by side on real photographs: success and queries of every method of the paper's tables.

`python -m benchmarks.rivals --norm l2 --images 50 --budget 1000` prints one row a method. A row is kept in --out as
soon as it is done, so an interrupted table goes on where it stopped.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, get_args

import torch

import dowse
from dowse import models
from dowse.core.target import TargetLike
from dowse.images.image_set import LoadedImages
from dowse.images.sources import open_images
from dowse.machine.cpu import ensure_fast_malloc
from dowse.machine.packages import shared_folder
from dowse.settings import Norm
from dowse.targets import resolve_target

# A step of ZOO with its published 128 coordinates costs 257 queries, a quarter of this table's budget; 48 keep it
# below a tenth.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "NES": ("nes", {}),
    "SPSA": ("spsa", {}),
    "Bandits T": ("bandits", {}),
    "Bandits TD": ("bandits", {"subspace": 50}),
    "AutoZOOM": ("autozoom", {}),
    "AutoZOOM in the ball": ("autozoom", {"shrink": False}),
    "ZOO": ("zoo", {"coordinates": 48}),
    "RGF": ("rgf", {}),
    "P-RGF (λ*)": ("prgf", {}),
    "Averaging (μ*)": ("averaging", {}),
    "RGF_D": ("rgf", {"subspace": 50}),
    "P-RGF_D (λ*)": ("prgf", {"subspace": 50}),
    "Averaging_D (μ*)": ("averaging", {"subspace": 50}),
}
HEADING = f"{'method':22} {'ASR':>6} {'AVG. Q':>7} {'median':>7} {'mean':>7} {'minutes':>8}"


def correct_images(target: TargetLike, folder: Path, n: int) -> LoadedImages:
    """The first n images of a folder that the target classifies right, at 224×224."""
    images = open_images(folder).load(2 * n, 224)
    with torch.no_grad():
        predicted = torch.cat([target(images.images[i : i + 8]).argmax(1) for i in range(0, len(images.labels), 8)])
    right = (predicted == images.labels).nonzero().flatten()[:n]
    return LoadedImages(images.images[right], tuple(images.entries[i] for i in right.tolist()))


def row(target: TargetLike, images: LoadedImages, title: str, norm: Norm, budget: int, seed: int) -> dict[str, Any]:
    """One method's row."""
    method, options = ROWS[title]
    start = time.perf_counter()
    result = dowse.attack(
        target,
        images.images,
        images.labels,
        method=method,
        surrogate=models.load("imagenet_efficientnet_lite0"),
        norm=norm,
        budget=budget,
        seed=seed,
        ids=images.names,
        **options,
    )
    summary = vars(result.summary()) | {"minutes": (time.perf_counter() - start) / 60}
    return summary | {"queries_of_each": result.queries.tolist(), "success": result.success.tolist()}


def line(title: str, row: dict[str, Any]) -> str:
    """A row as text: ASR, AVG. Q over successes, median with failures infinite, mean with failures at the budget."""
    return (
        f"{title:22} {row['asr']:6.1%} {row['mean_queries']:7.1f} {row['median_queries']:7.1f} "
        f"{row['mean_queries_budget']:7.1f} {row['minutes']:8.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--norm", default="l2", choices=get_args(Norm))
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="dowse:imagenet_mobilenetv2", help="a target spec")
    parser.add_argument("--only", nargs="*", default=list(ROWS), help="rows to run")
    parser.add_argument("--out", type=Path, default=Path("out/rivals"))
    arguments = parser.parse_args()
    ensure_fast_malloc()
    torch.set_num_threads(1)
    target = resolve_target(arguments.target)
    images = correct_images(target, shared_folder() / "data" / "nips17_dev500", arguments.images)
    print(HEADING)
    for title in arguments.only:
        name = f"{title}_{arguments.norm}_{arguments.images}_{arguments.budget}_{arguments.seed}.json"
        kept = arguments.out / name.replace(" ", "_").replace("*", "star")
        if not kept.exists():
            done = row(target, images, title, arguments.norm, arguments.budget, arguments.seed)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(done))
        print(line(title, json.loads(kept.read_text())), flush=True)


if __name__ == "__main__":
    main()
