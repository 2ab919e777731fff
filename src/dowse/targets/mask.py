"""A target that shows less: only its best classes, or probabilities rounded to a few decimals."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dowse.errors import InputError, is_count
from dowse.settings import Outputs

MOST_DECIMALS = 15  # a float has no more


@dataclass(frozen=True)
class Mask:
    """Turns a target's full answer into what a reader of the masked one knows, as probabilities.

    A shown class has the probability shown. A class that is not shown has at most the smallest probability shown, and
    at most what the shown ones leave of 1: it gets that bound. What is shown as zero is taken as half a unit of the
    last decimal. The target's best class is known whatever is hidden, so it stays strictly ahead where rounding makes
    it equal to others.

    Attributes:
        outputs: What the target answers with; logits become probabilities first.
        top: How many classes are shown, the best ones; None shows all.
        decimals: To how many decimals probabilities are rounded; None does not round.
    """

    outputs: Outputs = "logits"
    top: int | None = None
    decimals: int | None = None

    @classmethod
    def of(cls, outputs: Outputs, reveals: str | None, decimals: int | None) -> "Mask | None":
        """The mask that reveals="topk:5" and decimals=4 mean; None where nothing is hidden."""
        top = None if reveals is None else _parse_reveals(reveals)
        if decimals is not None and not (is_count(decimals) and decimals <= MOST_DECIMALS):
            raise InputError(
                f"decimals must be a whole number from 1 to {MOST_DECIMALS}, or None to show all, got {decimals!r}"
            )
        return None if top is None and decimals is None else cls(outputs, top, decimals)

    def __call__(self, scores: Tensor) -> Tensor:
        """Scores (n, K) -> probabilities (n, K), shown or bounded; rows that are not finite stay so."""
        full = scores.softmax(1) if self.outputs == "logits" else scores
        shown, floor = full, 0.0
        if self.decimals is not None:
            shown, floor = full.round(decimals=self.decimals), 0.5 * 10.0**-self.decimals
        known = shown.clamp_min(floor)
        if self.top is not None and self.top < full.shape[1]:
            best = full.topk(self.top, dim=1).indices
            values = shown.gather(1, best)
            rest = (1 - values.sum(1, keepdim=True)).clamp_min(floor)
            bound = torch.minimum(values.amin(1, keepdim=True).clamp_min(floor), rest)
            known = bound.expand_as(full).scatter(1, best, known.gather(1, best))
        return _keep_ahead(known, full.argmax(1, keepdim=True))


def _keep_ahead(known: Tensor, best: Tensor) -> Tensor:
    """Lower by one last bit every class that equals the best one, so that the best stays ahead: (n, K), (n, 1)."""
    top = known.gather(1, best)
    below = torch.nextafter(top, torch.full_like(top, -torch.inf))
    return torch.where(known >= top, below, known).scatter(1, best, top)


def _parse_reveals(reveals: str) -> int | None:
    """The number of classes shown: "topk:5" -> 5, "all" -> None."""
    word, _, number = str(reveals).partition(":")
    if word == "all" and not number:
        return None
    if word == "topk" and number.isdecimal() and int(number) >= 1:
        return int(number)
    raise InputError(f'reveals={reveals!r} is unknown: use "topk:5" to show the five best classes, or "all"')
