"""The true gradient, which an attack never sees: what figures 1b to 1e compare estimates with."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dowse.api import attack
from dowse.core.flow import Flow, gradient_at
from dowse.errors import InputError
from dowse.maths.geometry import Ball


@dataclass(frozen=True)
class _TrueGradient:
    """A conversation of one question, to a white-box target: its gradient at the image."""

    name = "true gradient"
    whitebox = True

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """∇f at x, (*s)."""
        return (yield from gradient_at(x))


def true_gradients(target: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    """∇f at each point, f the cross-entropy of Eq. (2): (n, C, H, W), (n,) -> (n, C, H, W)."""
    result = attack(target, points, labels, method=_TrueGradient(), accept="never")
    failed = next((outcome for outcome in result.outcomes if outcome.value is None), None)
    if failed is not None:
        raise InputError(f"the target gave no gradient. {failed.end.sentence} {failed.cause or ''}".rstrip())
    return torch.stack([outcome.value for outcome in result.outcomes])


def cosines(a: Tensor, b: Tensor) -> list[float]:
    """The cosine of each row of a to the same row of b, (n, *s) and (n, *s) -> n numbers; 0 for a zero row."""
    a, b = a.flatten(1).double(), b.flatten(1).double()
    lengths = torch.linalg.vector_norm(a, dim=1) * torch.linalg.vector_norm(b, dim=1)
    products = (a * b).sum(1)
    found: list[float] = torch.where(lengths > 0, products / lengths.clamp_min(1e-300), 0.0).tolist()
    return found
