"""SimBA: one orthonormal direction after another, pixels or low frequencies, kept when f grows (Guo et al. 2019)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Flow, check
from dowse.errors import choose, fraction, positive_or_none
from dowse.maths.cosines import cosines
from dowse.maths.geometry import Ball

Basis = Literal["dct", "pixel"]
STEP = 0.2  # the paper's ε of a step
WIDENING = 1 / 32  # of the image's side: how much higher frequencies join in at a time, 7 of 224


@dataclass(frozen=True, kw_only=True)
class SimBA(Attack):
    """Step −, then + along the next direction of an orthonormal basis, and keep the first that raises f.

    Cost: 1 query a step tried, so 1 or 2 a direction. Directions come in random order and none twice until all were
    tried: single pixels and colours, or cosines of the lowest frequencies, an eighth of the image's sides, to which
    higher ones are added a ring at a time.

    Differences to the original: it has no ball, its length grows as the root of the steps kept; here every iterate is
    projected into the ball, also in l∞, and the step is at most ε/6 of an l2 ball; after the last direction the first
    ones come again. It minimises the label's probability, of which the cross-entropy is a monotone function.

    Attributes:
        basis: "dct" for cosines, "pixel" for single pixels and colours.
        frequencies: The share of each side's frequencies that directions start from, for "dct".
        step: The length of a step, an l2 length in both norms; None is the paper's 0.2, at most ε/6 in an l2 ball.
    """

    name = "simba"
    paper = "Guo et al. 2019 (ICML)"
    cost = "1 or 2 a direction"
    few_rows = True
    uses_scores = False

    basis: Basis = "dct"
    frequencies: float = 1 / 8
    step: float | None = None

    def __post_init__(self) -> None:
        choose("basis", self.basis, get_args(Basis))
        fraction(frequencies=self.frequencies)
        positive_or_none(step=self.step)

    check = Attack.check_image

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (C, H, W); ends only from outside."""
        x0, η = x, self.step or (min(STEP, ball.eps / 6) if ball.norm == "l2" else STEP)
        while True:
            for direction in self.directions(x0, rng):
                for sign in (-1, 1):
                    proposal = ball.project(x + sign * η * direction, x0)
                    loss = yield from check(proposal)
                    if loss > f:
                        x, f = proposal, loss
                        break

    def directions(self, x: Tensor, rng: torch.Generator) -> Iterator[Tensor]:
        """Every direction of the basis once, each (C, H, W) and of length one, in the order they are tried."""
        C, H, W = x.shape
        if self.basis == "pixel":
            for i in torch.randperm(x.numel(), generator=rng).tolist():
                yield torch.zeros_like(x).view(-1).index_fill(0, torch.tensor(i, device=x.device), 1).view(x.shape)
            return
        rows, columns = cosines(H).to(x), cosines(W).to(x)
        for c, u, v in _by_rings(C, H, W, self.frequencies, rng):
            direction = torch.zeros_like(x)
            direction[c] = torch.outer(rows[u], columns[v])
            yield direction


def _by_rings(C: int, H: int, W: int, first: float, rng: torch.Generator) -> Iterator[tuple[int, int, int]]:
    """Colour and frequencies of all cosines: those below `first` of both sides shuffled, then ring after ring."""
    done, share = (0, 0), first
    while done != (H, W):
        h, w = (min(whole, max(1, math.ceil(share * whole))) for whole in (H, W))
        ring = [(c, u, v) for c in range(C) for u in range(h) for v in range(w) if u >= done[0] or v >= done[1]]
        yield from (ring[i] for i in torch.randperm(len(ring), generator=rng).tolist())
        done, share = (h, w), share + WIDENING
