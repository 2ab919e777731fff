"""What `dowse.attack` returns: the outcomes of many images as tensors."""

import math
from collections.abc import Iterable, Iterator, Sequence

import torch

from dowse.core.outcome import Outcome
from dowse.core.summary import Summary, attacked_of, summarize, why_failed
from dowse.errors import TargetFailedError


class Result:
    """The outcomes of N images, in the order the images were given.

    Attributes:
        outcomes: One Outcome an image.
        success: (N,) bool.
        queries: (N,) int64, rows answered.
        sent: (N,) int64, rows handed to the target; never below `queries`.
        verified: (N,) int64, how many of the `verify=` re-checks of a success were adversarial too.
        refused: (N,) int64, how many of the queries a detector refused.
        adversarial: (N, *s), on a failure the last iterate, which lies in the ball.
        end: N ends, each with a sentence.
    """

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = sorted(outcomes, key=lambda outcome: outcome.index)
        self.success = torch.tensor([outcome.success for outcome in self.outcomes])
        self.queries = torch.tensor([outcome.queries for outcome in self.outcomes])
        self.sent = torch.tensor([outcome.sent for outcome in self.outcomes])
        self.verified = torch.tensor([outcome.verified for outcome in self.outcomes])
        self.refused = torch.tensor([outcome.refused for outcome in self.outcomes])
        self.adversarial = torch.stack([outcome.adversarial for outcome in self.outcomes])
        self.end = [outcome.end for outcome in self.outcomes]

    def __len__(self) -> int:
        return len(self.outcomes)

    def __repr__(self) -> str:
        return f"Result({self.summary()})"

    def summary(self) -> Summary:
        """The run in numbers, see Summary."""
        return summarize(self.outcomes)

    def success_at(self, queries: float) -> float:
        """The share of attacked images fooled within so many queries; NaN if none was attacked."""
        attacked = attacked_of(self.outcomes)
        fooled = sum(outcome.success and outcome.queries <= queries for outcome in attacked)
        return fooled / len(attacked) if attacked else math.nan


def some_attacked(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes as they come; after them a TargetFailedError if the target failed and no image was attacked."""
    attacked, n, failed, first = False, 0, 0, None
    for n, outcome in enumerate(outcomes, 1):  # noqa: B007 the number is wanted after the last one
        attacked, failed = attacked or outcome.end.attacked, failed + outcome.end.failed
        first = outcome if first is None and outcome.end.failed else first
        yield outcome
    if first is not None and not attacked:
        raise TargetFailedError(
            f"the target failed on {failed} of {n} images and none could be attacked, so nothing is known about its "
            f"robustness. The first cause: {why_failed(first)}"
        ) from first.cause
