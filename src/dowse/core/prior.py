"""What answers `prior_at`: anything that can say in which direction f grows for a model of its own."""

from typing import Any, Protocol

from torch import Tensor


class Prior(Protocol):
    """Anything that can say in which direction f grows for a model of its own.

    A prior that is not the same each time says so with an attribute `takes_turns = True` and is called as
    `gradient(x, labels, turns=(n,) int64)`: how many gradients each image was given before. It must depend on nothing
    else, so that an image's result does not depend on its neighbours.
    """

    def gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        """∇f of the surrogate at each image: (n, *s), (n,) -> (n, *s)."""
        ...


def gradient_of(prior: Prior, x: Tensor, labels: Tensor, turns: Tensor) -> Tensor:
    """A prior's gradient at each image, (n, *s), its turns, (n,), told to a prior that asks for them."""
    asks_for_turns: Any = prior
    if getattr(prior, "takes_turns", False):
        gradient: Tensor = asks_for_turns.gradient(x, labels, turns=turns)
        return gradient
    return prior.gradient(x, labels)
