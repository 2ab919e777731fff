"""SignHunter: divide and conquer over the signs of the gradient (Al-Dujaili and O'Reilly 2020)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.core.flow import Flow, check
from dowse.maths.geometry import Ball


@dataclass(frozen=True, kw_only=True)
class SignHunter(Attack):
    """Walk the corners of the ball: flip all signs, then halves, quarters, …, single ones, and keep what f likes.

    Cost: 1 query a flip, and 1 for the first corner (Algorithm 1). The corner is x + ε·s for l∞ and
    x + ε·s/√D for l2, s in {−1, 1}^D from all ones on; a flip stays unless f falls. After the last single sign it
    starts again from where it is.

    It draws nothing at random. Differences to the original: success is looked for at every corner asked about, not only
    at those kept; the queries of a start are counted as they are asked, 1 and not 4.
    """

    name = "signhunter"
    paper = "Al-Dujaili and O'Reilly 2020 (ICLR)"
    cost = "1"
    few_rows = True
    uses_scores = False

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Tensor]:
        """Attack x, (*s); ends only from outside."""
        x0 = x
        while True:
            centre, signs = x, torch.ones_like(x).flatten()
            x = _corner(centre, signs, x0, ball)
            f = yield from check(x)
            for part in _parts(x.numel()):
                flipped = signs.clone()
                flipped[part] *= -1
                proposal = _corner(centre, flipped, x0, ball)
                loss = yield from check(proposal)
                if loss >= f:
                    x, f, signs = proposal, loss, flipped


def _corner(centre: Tensor, signs: Tensor, x0: Tensor, ball: Ball) -> Tensor:
    """The point ε away from the centre, (*s), by signs, (D,), that the ball around x0 leaves of it."""
    return ball.project(centre + ball.eps * ball.steepest(signs.view(centre.shape)), x0)


def _parts(D: int) -> Iterator[slice]:
    """The whole, its halves, its quarters, … down to single coordinates."""
    for level in range(math.ceil(math.log2(D)) + 1):
        length = math.ceil(D / 2**level)
        yield from (slice(start, start + length) for start in range(0, D, length))
