"""ADAM's step (Kingma and Ba 2015) with explicit state, and what it needs to settle rightly in a ball."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.maths.geometry import Ball

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
ON_SURFACE = 1 - 1e-3  # of ε: a projection that gives way to rounding ends a little below ε
SMALL_SIDE = 64  # images up to here take the rate published for MNIST and CIFAR-10; where the line lies is ours


@dataclass(frozen=True)
class Adam:
    """What ADAM remembers.

    Attributes:
        first: The running mean of gradients, (D,).
        second: The running mean of their squares, (D,).
        updates: How often each coordinate was updated, (D,) float64: powers of 0.999 want the digits.
    """

    first: Tensor
    second: Tensor
    updates: Tensor

    @staticmethod
    def fresh(like: Tensor) -> "Adam":
        """No memory yet, for as many coordinates as `like` has elements."""
        zero = torch.zeros_like(like).flatten()
        return Adam(zero, zero, zero.double())

    def step(self, g: Tensor, chosen: Tensor | None = None) -> tuple[Tensor, "Adam"]:
        """The ascent step of rate one for the gradient g, shaped like g, and the new memory.

        With `chosen`, (n,) indices, g is (n,) and only those coordinates are updated.
        """
        old = self if chosen is None else Adam(self.first[chosen], self.second[chosen], self.updates[chosen])
        flat, t = g.flatten(), old.updates + 1
        first = BETA_1 * old.first + (1 - BETA_1) * flat
        second = BETA_2 * old.second + (1 - BETA_2) * flat.square()
        mean, square = first / (1 - BETA_1**t).to(g), second / (1 - BETA_2**t).to(g)
        step = (mean / (square.sqrt() + EPSILON)).view(g.shape)
        if chosen is None:
            return step, Adam(first, second, t)
        memory = Adam(
            self.first.index_copy(0, chosen, first),
            self.second.index_copy(0, chosen, second),
            self.updates.index_copy(0, chosen, t),
        )
        return step, memory


def free_part(g: Tensor, x: Tensor, x0: Tensor, ball: Ball, chosen: Tensor | None = None) -> Tensor:
    """The part of a gradient g that the ball leaves free at x, (*s): on the surface of an l2 ball the part along it.

    ADAM moves all coordinates by about the same, whatever their slopes, and a projection that undoes the outward part
    of each step would let it settle at the sign of the gradient, which in an l2 ball is not where f is largest.
    Inside the ball, for a g that points inwards and for l∞ this is g itself. With `chosen`, (n,) indices, g is (n,).
    """
    if ball.norm != "l2" or float(ball.distance(x.unsqueeze(0), x0)[0]) < ON_SURFACE * ball.eps:
        return g
    δ = (x - x0).flatten()
    δ = (δ if chosen is None else δ[chosen]).view(g.shape)
    outwards = float((g * δ).sum())
    return g - outwards / float(δ.square().sum()) * δ if outwards > 0 else g


def published_rate(x: Tensor) -> float:
    """ZOO's and AutoZOOM's learning rate: 0.01 for MNIST and CIFAR-10, 0.002 for ImageNet; x is an image, (*s)."""
    return 0.01 if max(x.shape[-2:]) <= SMALL_SIDE else 0.002
