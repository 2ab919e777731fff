"""That a stream's memory does not grow with the number of images: peak of 200 over that of 20, in fresh processes."""

import resource
import subprocess
import sys

import torch

import dowse
from benchmarks.figure import Figure
from benchmarks.targets import RandomPrior

REPEATS = 3


def figures() -> list[Figure]:
    ratios = []
    for _ in range(REPEATS):
        peaks = {n: _peak_of_process(n) for n in (20, 200)}
        ratios.append(peaks[200] / peaks[20])
    return [Figure("peak memory of a stream of 200 images over 20 at 3×224×224", ratios, "at most", 1.1)]


def _peak_of_process(images: int) -> float:
    command = [sys.executable, "-m", "benchmarks.memory", str(images)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _mean_colour(points: torch.Tensor) -> torch.Tensor:
    """A classifier light enough for 200 images: its scores are the mean colours."""
    return points.mean((2, 3))


def main() -> None:
    """Stream the number of images given and print the peak of this process's memory in MB."""
    torch.set_num_threads(1)
    rng = torch.Generator().manual_seed(0)
    images = (torch.rand(3, 224, 224, generator=rng) for _ in range(int(sys.argv[1])))
    stream = dowse.stream(
        _mean_colour, images, method="prgf", surrogate=RandomPrior(), eps=1e-3, budget=120, q=50, concurrency=8
    )
    for _ in stream:
        pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
