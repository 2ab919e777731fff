"""An attack that never leaves the 8-bit grid."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Flow, Query
from dowse.core.method import take_facts
from dowse.maths.geometry import Ball
from dowse.maths.grid import check_on_grid, on_grid, pixels


@dataclass(frozen=True)
class Quantized(Attack):
    """An attack on the 8-bit grid: its ball is a GridBall, and its probes are rounded to the nearest 8-bit images.

    A probe is rounded in place, so an attack that looks at what it sent learns the displacement that the target saw.

    Attributes:
        attack: The attack that is kept on the grid.
    """

    attack: Attack

    def __post_init__(self) -> None:
        take_facts(self, self.attack)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Any]:
        """Attack x, (*s), an 8-bit image."""
        inner = self.attack.flow(x, f, ball, rng)
        heard: Any = None
        while True:
            try:
                question = inner.send(heard)
            except StopIteration as stop:
                return stop.value
            heard = yield _rounded(question) if isinstance(question, Query) else question

    def check(self, x: Tensor) -> None:
        """Raise what speaks against an image like x, (*s), before any query."""
        check_on_grid(x)
        self.attack.check(x)


def _rounded(query: Query) -> Query:
    """The query about 8-bit images, in the same memory unless its rows share some."""
    points = pixels(on_grid(query.points), query.points)
    if 0 in query.points.stride():
        return query._replace(points=points)
    query.points.copy_(points)
    return query
