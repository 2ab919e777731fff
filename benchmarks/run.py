"""Runs the benchmarks: one line a figure, and 1 as exit status if one falls short of its goal.

`python -m benchmarks.run [NAME …]` runs those named only.
"""

import importlib
import sys

import torch

from dowse.machine.cpu import ensure_fast_malloc

SUITES = ("overhead", "memory", "onnx", "scaling", "latency", "scale")


def main(names: list[str]) -> int:
    ensure_fast_malloc()
    torch.set_num_threads(1)
    missed = 0
    for name in names or SUITES:
        for figure in importlib.import_module(f"benchmarks.{name}").figures():
            print(figure, flush=True)
            missed += not figure.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
