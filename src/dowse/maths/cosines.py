"""The discrete cosine transform's basis."""

import math

import torch
from torch import Tensor


def cosines(n: int, k: int | None = None) -> Tensor:
    """The orthonormal basis of the cosine transform (DCT-II), its first k frequencies or all n, (k, n) float64.

    >>> (cosines(5, 3) @ cosines(5, 3).T).round(decimals=6).abs()
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]], dtype=torch.float64)
    """
    frequency, place = torch.arange(k or n, dtype=torch.float64)[:, None], torch.arange(n, dtype=torch.float64)
    basis = torch.cos(math.pi * (place + 0.5) * frequency / n) * math.sqrt(2 / n)
    basis[0] /= math.sqrt(2)
    return basis
