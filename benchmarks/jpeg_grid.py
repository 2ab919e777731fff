"""P-RGF against JPEG compression: smoothed or plain transfer gradient × σ = 1e-4 or 1e-3, the same images in each cell.

`python -m benchmarks.jpeg_grid --images 50 --budget 1000` attacks MobileNetV2 behind JPEG at quality 75 with
EfficientNet-Lite0 as the surrogate, on photographs of nips17_dev500 (under $DOWSE_SHARED/data) that the defended target
classifies rightly. Each cell is written to a file as it ends and is not run again.
"""

import argparse
import json
import math
import os
from itertools import product
from pathlib import Path

import torch

import dowse
from dowse import data, models, tuning
from dowse.defences import Jpeg

SMOOTH, SIGMA = (None, 15), (1e-4, 1e-3)


def chosen(target: torch.nn.Module, n: int) -> data.ImageSet:
    """The first n photographs that the target classifies rightly."""
    shared = Path(os.environ.get("DOWSE_SHARED", "../shared"))
    photographs = data.load_folder(shared / "data" / "nips17_dev500", limit=2 * n + 10)
    with torch.no_grad():
        guess = torch.cat([target(x).argmax(1) for x in photographs.images.split(8)])
    rows = (guess == photographs.labels).nonzero().squeeze(1)[:n]
    names = tuple(photographs.names[i] for i in rows.tolist())
    return data.ImageSet(photographs.images[rows], photographs.labels[rows], names)


def run_cell(target, surrogate, images, smooth, sigma, budget, options) -> dict:
    """One cell: what each image cost, and whether it was fooled."""
    result = dowse.attack(
        target, images.images, images.labels, ids=images.names, surrogate=dowse.Surrogate(surrogate, smooth=smooth),
        sigma=sigma, budget=budget, **options,
    )  # fmt: skip
    return {"success": result.success.tolist(), "queries": result.queries.tolist()}


def describe(cells: dict[str, dict], budget: int) -> str:
    """The table of the grid, and each cell's paired difference to the paper's (smooth 15, σ 1e-3)."""
    spent = {
        name: torch.tensor([q if won else budget for won, q in zip(c["success"], c["queries"], strict=True)]).double()
        for name, c in cells.items()
    }
    best = spent["smooth=15 sigma=0.001"]
    lines = ["| prior | σ | ASR | AVG. Q | median | mean, failures at the budget | less the last cell, ± s.e. |"]
    lines.append("|---|---|---|---|---|---|---|")
    for (smooth, sigma), (name, cell) in zip(product(SMOOTH, SIGMA), cells.items(), strict=True):
        won = torch.tensor(cell["success"])
        queries = torch.tensor(cell["queries"]).double()
        ordered = torch.where(won, queries, math.inf).sort().values
        n = len(won)
        median = float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        δ = spent[name] - best
        error = float(δ.std() / n**0.5) if n > 1 else math.nan
        lines.append(
            f"| {'plain' if smooth is None else f'smoothed {smooth}'} | {sigma:g} | {float(won.double().mean()):.1%} | "
            f"{float(queries[won].mean()):.0f} | {median:.0f} | {float(spent[name].mean()):.0f} | "
            f"{float(δ.mean()):+.0f} ± {error:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--q", type=int, default=50)
    parser.add_argument("--subspace", type=int, default=None, help="side of the data prior's grid; none by default")
    parser.add_argument("--quality", type=int, default=75)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/jpeg_grid.json"))
    options = parser.parse_args()
    tuning.ensure_fast_malloc()
    torch.set_num_threads(1)
    target = Jpeg(models.load("imagenet_mobilenetv2"), options.quality)
    surrogate = models.load("imagenet_efficientnet_lite0")
    images = chosen(target, options.images)
    about = {name: value for name, value in vars(options).items() if name != "out"}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    cells: dict[str, dict] = {}
    if options.out.is_file():
        kept = json.loads(options.out.read_text())
        cells = kept["cells"] if kept["about"] == about else {}
    for smooth, sigma in product(SMOOTH, SIGMA):
        name = f"smooth={smooth} sigma={sigma:g}"
        if name not in cells:
            more = {"q": options.q, "subspace": options.subspace, "seed": options.seed}
            cells[name] = run_cell(target, surrogate, images, smooth, sigma, options.budget, more)
            options.out.write_text(json.dumps({"about": about, "cells": cells}, indent=1))
        print(name, f"{sum(cells[name]['success'])}/{len(images.names)} fooled", flush=True)
    print(f"\nJPEG {options.quality}, {len(images.names)} images, budget {options.budget}, q {options.q}\n")
    print(describe(cells, options.budget))


if __name__ == "__main__":
    main()
