"""Small networks whose rows do not depend on the batch, by construction, on any processor.

They are made of sums, differences, products and quotients of single elements, which every processor rounds in the same
way; of sums along one row, whose order is the row's own; and of one call of `math` an element. There is no matrix
product and no convolution in them: those take their order of summation from the number of rows and from the processor.
Nor is there a vectorised function such as torch.atanh, whose last elements of a batch are done by another routine than
the rest. docs/testing.md says what rests on this, and tests/laws/test_rows.py checks it.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.rounding import play_if_asked

play_if_asked()  # in a worker too, which loads its target from here or from what imports this

SHAPE = (3, 4, 4)
D = math.prod(SHAPE)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rowwise(x: Tensor, W: Tensor) -> Tensor:
    """x Wᵀ, (n, D) and (K, D) -> (n, K), as sums whose order does not depend on n: a row is the same in any batch."""
    return (x.unsqueeze(1) * W).sum(2)


class _EachTanh(torch.autograd.Function):
    """tanh, one call an element."""

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        y = h.detach().clone().apply_(math.tanh)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return gradients[0] * (1 - y * y)


class Linear(nn.Module):
    """Scores W x + b of a flat image."""

    def __init__(self, W: Tensor, b: Tensor) -> None:
        super().__init__()
        self.W, self.b = nn.Parameter(W), nn.Parameter(b)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return rowwise(x.flatten(1), self.W) + self.b


class Tanh(nn.Module):
    """A network of one hidden layer.

    Args:
        seed: What the weights are drawn from.
        near: Another such network; the weights then lie near its own, so that the two make target and surrogate.
        apart: How far from it.
        steep: How large the weights are.
    """

    def __init__(
        self,
        seed: int = 0,
        near: "Tanh | None" = None,
        apart: float = 0.6,
        classes: int = 4,
        hidden: int = 12,
        steep: float = 3.0,
        shape: tuple[int, ...] = SHAPE,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        rng, size = generator(seed), math.prod(shape)
        U = torch.randn(hidden, size, generator=rng, dtype=torch.float64) * steep / math.sqrt(size)
        V = torch.randn(classes, hidden, generator=rng, dtype=torch.float64) * steep / math.sqrt(hidden)
        if near is not None:
            U, V = apart * U + near.U.detach().double(), apart * V + near.V.detach().double()
        self.U, self.V = nn.Parameter(U.to(dtype)), nn.Parameter(V.to(dtype))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return rowwise(_EachTanh.apply(rowwise(x.flatten(1) - 0.5, self.U)), self.V)


class Pooled(nn.Module):
    """Takes images of any size, looks at each channel's mean square, and tells which size it saw last."""

    def __init__(self, classes: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(classes, 3, generator=generator(seed), dtype=torch.float64).to(dtype))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        self.seen = tuple(x.shape[-2:])
        return rowwise((x * x).mean((2, 3)), self.mix)


class Waves(nn.Module):
    """Takes images of any size and looks at nine slow waves across them; no two pixels weigh the same."""

    def __init__(self, seed: int = 0, classes: int = 4, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        mix = 4 * torch.randn(classes, 9, generator=generator(seed), dtype=torch.float64)
        self.mix = nn.Parameter(mix.to(dtype))
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        grey = x.mean(1) - 0.5
        rows, columns = torch.linspace(0, 3, x.shape[2]).to(x), torch.linspace(0, 3, x.shape[3]).to(x)
        waves = [
            (grey * torch.cos(i * rows).view(1, -1, 1) * torch.cos(j * columns)).sum((1, 2)) / grey[0].numel()
            for i in range(3)
            for j in range(3)
        ]
        return rowwise(torch.stack(waves, 1), self.mix)
