"""The space that directions span: an orthonormal basis of it, and a gradient's projection onto it by slopes."""

import torch
from torch import Tensor


def orthonormal(rows: Tensor) -> Tensor:
    """The rows made orthogonal to those before them and brought to length one, (n, *s) -> (m, *s), m ≤ n.

    Rows of zero, and those of which those before them leave only rounding, are left out. Each row is cleared of the
    others twice, because what one pass leaves of a nearly parallel row is orthogonal to a few digits only.

    >>> orthonormal(torch.tensor([[2.0, 0.0], [5.0, 0.0], [1.0, 1.0]])).round() + 0  # two are parallel
    tensor([[1., 0.],
            [0., 1.]])
    """
    flat, kept = rows.reshape(len(rows), -1), torch.empty_like(rows.reshape(len(rows), -1))
    least, m = 64 * torch.finfo(rows.dtype).eps, 0
    for row in flat:
        length = torch.linalg.vector_norm(row)
        if not length > 0:
            continue
        row = row / length
        for _ in range(2):
            row = row - (kept[:m] @ row) @ kept[:m]
        rest = torch.linalg.vector_norm(row)
        if rest > least:
            kept[m] = row / rest
            m += 1
    return kept[:m].view(m, *rows.shape[1:])


def projection(displacement: Tensor, rise: Tensor) -> Tensor:
    """The shortest g with displacement @ g = rise: ∇f's projection onto the span of the displacements, as they shrink.

    Args:
        displacement: (n, D), what was added to x; rows may be anything, zero too.
        rise: (n,) float64, what f grew by.

    Returns:
        g, (D,).

    >>> projection(torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.1, 0.0]]), torch.tensor([1.0, 0.3])).round() + 0
    tensor([2., 3., 0.])
    """
    length = torch.linalg.vector_norm(displacement, dim=1, keepdim=True)
    rows = displacement / torch.where(length > 0, length, 1)
    slope = torch.where(length[:, 0] > 0, rise.to(rows) / torch.where(length > 0, length, 1)[:, 0], 0)
    gram = (rows @ rows.T).double().cpu()
    weights = torch.linalg.pinv(gram, hermitian=True, rtol=1e-6) @ slope.double().cpu()
    g: Tensor = weights.to(rows) @ rows
    return g
