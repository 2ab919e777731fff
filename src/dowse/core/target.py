"""What became of rows that were handed to a target, row by row: sent how often, answered or not."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Delivery:
    """One call of a target, accounted for row by row.

    Rows count by themselves, not as a batch: if a target splits a call into several requests and one of them fails for
    good, the rows of the others are answered all the same.

    Attributes:
        scores: (n, K), meaningless in rows that were not answered; None if no row was.
        sent: How often each row was handed over, (n,) int64; a retry hands over again.
        answered: Which rows have their scores, (n,) bool.
        cause: Why some rows have none; None if all were answered.
    """

    scores: Tensor | None
    sent: Tensor
    answered: Tensor
    cause: Exception | None = None

    @classmethod
    def whole(cls, scores: Tensor) -> "Delivery":
        """All rows were handed over once and answered with scores, (n, K)."""
        n = len(scores)
        return cls(scores, torch.ones(n, dtype=torch.int64), torch.ones(n, dtype=torch.bool))

    @classmethod
    def failed(cls, n: int, cause: Exception) -> "Delivery":
        """All n rows were handed over once and none was answered."""
        return cls(None, torch.ones(n, dtype=torch.int64), torch.zeros(n, dtype=torch.bool), cause)


class Delivers(Protocol):
    """A target that accounts for its rows itself, because it sends some of them again or in several requests.

    Attributes:
        rows_per_call: How many rows it likes best in one call, where the run does not say (`batch_size=`).
    """

    rows_per_call: int | None

    def __call__(self, points: Tensor) -> Tensor:
        """Scores (n, K) of points (n, *s), or the cause why there are none, raised."""
        ...

    def deliver(self, points: Tensor) -> Delivery:
        """Hand over points, (n, *s); a row that cannot be answered is reported, not raised."""
        ...
