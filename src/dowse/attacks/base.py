"""What every attack is: frozen hyper-parameters, facts about itself, and a conversation about one image."""

from typing import Any

import torch
from torch import Tensor

from dowse.core.flow import Flow
from dowse.core.method import Method
from dowse.errors import InputError
from dowse.maths.geometry import Ball


class Attack(Method):
    """A whole attack on one image. The driver asks the target, counts and ends; an attack does none of it.

    Derive a frozen dataclass of it, write `flow`, and set the facts of `Method` that are otherwise:

        @dataclass(frozen=True, kw_only=True)
        class Corners(Attack):
            name = "corners"
            cost = "1"
            norms = ("linf",)
            uses_scores = False

            tries: int = 50

            def flow(self, x, f, ball, rng):
                ...

    A field `step` is filled in by the run's step, a field `norm` by its norm. `dowse.attacks.registry.METHODS` has the
    named ones; any other is `method="package.module:Corners"` (docs/extending.md).
    """

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Any]:
        """Converse about the image x, (*s), whose loss f is known and paid for.

        Args:
            x: The image.
            f: Its loss, which the attack is to increase.
            ball: Where its iterates must lie; it knows eps and norm, projects and gives steepest directions.
            rng: The image's random stream: all randomness comes from here.

        Returns:
            What becomes `outcome.value`, for an attack that gives up by itself.
        """
        raise NotImplementedError(f"{type(self).__name__} has no flow(x, f, ball, rng)")

    def check_image(self, x: Tensor) -> None:
        """Raise InputError for what is no image, (C, H, W): the `check` of attacks that look at rows and columns."""
        if x.ndim != 3:
            raise InputError(f"{self.name} is about images (C, H, W), got {tuple(x.shape)}")
