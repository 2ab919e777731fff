"""On a small network a surrogate of its own training pays, and a useless one costs little."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dowse
from tests.support import generator

CLASSES, SIDE, IMAGES, BUDGET, EPS = 8, 16, 48, 1000, 1.2


def templates() -> Tensor:
    """A smooth pattern for each class, (K, 3, side, side)."""
    coarse = torch.randn(CLASSES, 3, 4, 4, generator=generator(0))
    return F.interpolate(coarse, size=SIDE, mode="bilinear", align_corners=False)


def samples(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images of the classes, each shifted, scaled and noisy in its own way: (n, 3, side, side), (n,)."""
    rng = generator(seed)
    labels = torch.randint(CLASSES, (n,), generator=rng)
    shifts = torch.randint(-2, 3, (n, 2), generator=rng).tolist()
    patterns = torch.stack([t.roll(s, (1, 2)) for t, s in zip(templates()[labels], shifts, strict=True)])
    strength = 0.03 + 0.04 * torch.rand(n, 1, 1, 1, generator=rng)
    noise = 0.12 * torch.randn(n, 3, SIDE, SIDE, generator=rng)
    return (0.5 + strength * patterns + noise).clamp(0, 1), labels


class Centred(nn.Module):
    """Pixels around zero, of about unit size."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 0.5) / 0.1


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        Centred(),
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24 * (SIDE // 4) ** 2, CLASSES),
    )  # fmt: skip


def trained(seed: int) -> nn.Module:
    """A network trained on samples of its own seed."""
    net, (x, y) = network(seed), samples(400, seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(150):
        batch = torch.randint(len(x), (64,), generator=generator(1000 * seed + step))
        optimizer.zero_grad()
        F.cross_entropy(net(x[batch]), y[batch], label_smoothing=0.3).backward()
        optimizer.step()
    return net.eval().requires_grad_(False)


def gradients(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """∇f of the cross-entropy, (n, D)."""
    x = x.clone().requires_grad_()
    (g,) = torch.autograd.grad(F.cross_entropy(net(x), y, reduction="sum"), x)
    return g.flatten(1)


@pytest.fixture(scope="module")
def setting() -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    """Target, surrogate, and images that the target classifies right."""
    target, surrogate = trained(1), trained(2)
    x, y = samples(4 * IMAGES, 3)
    right = (target(x).argmax(1) == y).nonzero().flatten()[:IMAGES]
    assert len(right) == IMAGES
    return target, surrogate, x[right], y[right]


def mean_queries(target: nn.Module, x: Tensor, y: Tensor, method: str, surrogate: nn.Module | None = None) -> float:
    result = dowse.attack(target, x, y, method=method, surrogate=surrogate, eps=EPS, budget=BUDGET, concurrency=IMAGES)
    return result.summary().mean_queries_budget


def test_the_prior_pays(setting):
    target, surrogate, x, y = setting
    α = F.cosine_similarity(gradients(target, x, y), gradients(surrogate, x, y)).mean()
    assert 0.1 <= α <= 0.4, f"the surrogate's mean cosine is {α:.2f}; the claim is about 0.1 to 0.4"
    rgf = mean_queries(target, x, y, "rgf")
    assert mean_queries(target, x, y, "prgf", surrogate) <= 0.6 * rgf


def test_a_random_surrogate_costs_little(setting):
    target, _, x, y = setting
    rgf = mean_queries(target, x, y, "rgf")
    assert mean_queries(target, x, y, "prgf", network(9).eval().requires_grad_(False)) <= 1.25 * rgf
