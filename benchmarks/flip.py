"""What turning every second probe is worth, apart from clipping: the cosine of P-RGF's estimate to the gradient.

`python -m benchmarks.flip` prints medians over the first images that MobileNetV2 knows; `--images 20` takes more.
"""

import argparse
import math

import torch
from torch import Tensor, nn

from benchmarks.noise import OBJECTIVE, known
from dowse import models
from dowse.core.flow import Answer
from dowse.core.seeds import stream
from dowse.estimators.probing import ask_probes
from dowse.machine.cpu import ensure_fast_malloc
from dowse.maths.sampling import biased, sphere, unit
from dowse.surrogates.prior import SurrogatePrior
from dowse.surrogates.surrogate import Surrogate

Q, LAM = 50, 0.05
SIGMAS = (1e-4, 1e-3)


def main() -> None:
    """Print a line for each σ, clipped or not, turned or not, with f(x) exact or off by a hundredth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10)
    count = parser.parse_args().images
    ensure_fast_malloc()
    torch.set_num_threads(1)
    net = models.load("imagenet_mobilenetv2")
    own = SurrogatePrior(Surrogate(net), OBJECTIVE)
    other = SurrogatePrior(Surrogate(models.load("imagenet_efficientnet_lite0")), OBJECTIVE)
    images, labels = (every[:count] for every in known(net))
    truths, priors = (one.gradient(images, labels).double() for one in (own, other))
    print(f"Median cosine of {len(images)} images, λ = {LAM}, q = {Q}; the same directions in every column.\n")
    print(
        "| σ | clipped | all along u | every second along −u | f(x) off by 0.01: all along u | every second along −u |"
    )
    print("|---|---|---|---|---|---|")
    for σ in SIGMAS:
        for clip in (True, False):
            cells = []
            for error in (0.0, 0.01):
                for turned in (False, True):
                    found = [
                        cosine(net, x, int(y), v, g, σ, clip=clip, turned=turned, error=error, seed=i)
                        for i, (x, y, v, g) in enumerate(zip(images, labels, priors, truths, strict=True))
                    ]
                    cells.append(f"{torch.tensor(found).median():.4f}")
            print(f"| {σ:g} | {'yes' if clip else 'no'} | {' | '.join(cells)} |", flush=True)


def cosine(
    net: nn.Module, x: Tensor, label: int, prior: Tensor, truth: Tensor, σ: float, *, clip: bool, turned: bool,
    error: float, seed: int,
) -> float:  # fmt: skip
    """The cosine of Eq. (5)'s estimate at x, (C, H, W), from Q probes that lean to the prior, to the true gradient."""
    v = unit(prior.to(x))
    u = biased(v, LAM, sphere(Q, x, stream(seed, "flip", "prgf")))
    if turned:
        u[1::2].neg_()
    f = float(losses(net, x.unsqueeze(0), label)[0]) + error
    flow = ask_probes(x, f, u, σ, clip=clip)
    question = next(flow)
    loss = losses(net, question.points, label)  # type: ignore[union-attr]
    try:
        flow.send(Answer(loss, torch.zeros(len(loss), dtype=torch.bool), loss.unsqueeze(1)))
    except StopIteration as stop:
        ĝ = stop.value.gradient(x.shape).double()
    return float((ĝ * truth).sum() / max(1e-300, math.sqrt(float(ĝ.square().sum() * truth.square().sum()))))


def losses(net: nn.Module, points: Tensor, label: int) -> Tensor:
    """f of each row, (n, C, H, W) -> (n,) float64."""
    with torch.inference_mode():
        return OBJECTIVE.value(net(points).double(), torch.full((len(points),), label))


if __name__ == "__main__":
    main()
