"""Several surrogates as one."""

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from dowse.core.prior import Prior
from dowse.errors import InputError, choose
from dowse.maths.sampling import unit
from dowse.settings import Combine


class Ensemble(Prior):
    """Several priors as one: the mean of their normalised gradients, or each in its turn.

    Args:
        priors: At least one.
        combine: "mean", or "cycle", where an image's first gradient comes from the first prior, its second from the
            second, and so on around.
    """

    def __init__(self, priors: Sequence[Prior], combine: Combine = "mean") -> None:
        choose("combine", combine, get_args(Combine))
        if not priors:
            raise InputError("a list of surrogates must name at least one, got none")
        self.priors, self.combine = tuple(priors), combine

    def check_label(self, label: int) -> None:
        """Raise InputError if a label is none of the classes of one of its networks."""
        for prior in self.priors:
            prior.check_label(label)

    def expect(self, classes: int) -> None:
        """Tell each of its priors how many classes the target has."""
        for prior in self.priors:
            prior.expect(classes)

    @property
    def surrogates(self) -> tuple[Prior, ...]:
        """Those of its priors, one after the other."""
        return tuple(one for prior in self.priors for one in prior.surrogates)

    def gradient(self, x: Tensor, labels: Tensor, turns: Tensor | None = None) -> Tensor:
        """The combined gradient at each row: (n, *s), (n,), (n,) -> (n, *s); its length has no meaning."""
        turns = torch.zeros_like(labels) if turns is None else turns
        if self.combine == "mean":
            units = [unit(prior.gradient(x, labels, turns), batched=True) for prior in self.priors]
            return torch.stack(units).mean(0)
        g = torch.empty_like(x)
        for i, prior in enumerate(self.priors):
            rows = (turns % len(self.priors) == i).nonzero().squeeze(1)
            if len(rows):
                g[rows] = prior.gradient(x[rows], labels[rows], turns[rows] // len(self.priors))
        return g
