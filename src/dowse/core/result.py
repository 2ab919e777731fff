"""How an attack on an image ended, and what many of them amount to."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dowse.errors import TargetFailedError

if TYPE_CHECKING:  # a store is read without torch, which takes seconds to import
    from torch import Tensor


class End(StrEnum):
    """Why the conversation about an image ended; `sentence` says it to the reader."""

    ADVERSARIAL = "adversarial"
    BUDGET = "budget"
    EXHAUSTED = "exhausted"
    DETECTED = "detected"
    ALREADY_WRONG = "already_wrong"
    NONFINITE = "nonfinite"
    TARGET_FAILED = "target_failed"

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return _SENTENCES[self]

    @property
    def failed(self) -> bool:
        """Whether the target is at fault, so that it tells nothing about how robust the image is."""
        return self in (End.NONFINITE, End.TARGET_FAILED)

    @property
    def attacked(self) -> bool:
        """Whether the image counts: it was there to be attacked, and the target answered."""
        return self is not End.ALREADY_WRONG and not self.failed


_SENTENCES = {
    End.ADVERSARIAL: "An adversarial image was found inside the ball.",
    End.BUDGET: "The next question would have cost more queries than the budget has left.",
    End.EXHAUSTED: "The method gave up before the budget was spent.",
    End.DETECTED: "A query was refused as too like an earlier one, and the account was blocked.",
    End.ALREADY_WRONG: "The target misclassifies the image unchanged, so there was nothing to attack.",
    End.NONFINITE: "The target answered with NaN or infinite scores.",
    End.TARGET_FAILED: "The target raised an error instead of answering.",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one image.

    Attributes:
        index: Its position among the images given.
        id: Its name, from which its random stream is drawn.
        end: Why it ended.
        queries: Rows the target answered.
        sent: Rows handed to the target.
        budget: The most queries it was allowed.
        label: The label it was attacked as; the target's own if none was given, None if it was never answered.
        adversarial: The adversarial image, or the last iterate, which lies in the ball, (*s).
        distance: ‖adversarial − x‖ in the attack's norm.
        loss: f at `adversarial`, NaN if it was never answered.
        cause: What the target raised, for TARGET_FAILED.
        value: What the flow returned, if it ended by itself.
        verified: How many of the `verify=` re-checks of a success were adversarial too; these rows are in `sent` alone.
        refused: Rows among `queries` that a detector refused.
        queries_until_detected: Which query was the first of them, counted from 1; None if none was refused.
    """

    index: int
    id: str
    end: End
    queries: int
    sent: int
    budget: int
    label: int | None
    adversarial: "Tensor"
    distance: float
    loss: float
    cause: Exception | None = None
    value: Any = None
    verified: int = 0
    refused: int = 0
    queries_until_detected: int | None = None

    @property
    def success(self) -> bool:
        """Whether an adversarial image was found."""
        return self.end is End.ADVERSARIAL


@dataclass(frozen=True)
class Summary:
    """A run in numbers; images that were misclassified from the start, or that the target failed on, are left out.

    Attributes:
        n: Images attacked.
        successes: How many of them were fooled.
        asr: The attack success rate, successes / n.
        mean_queries: AVG. Q of the paper: over successes only, which flatters a method that fails on hard images.
        median_queries: The median with every failure counted as infinite.
        mean_queries_budget: The mean with every failure counted at the whole budget.
        queries: All queries of the attacked images.
        already_wrong: Images left out because they were misclassified from the start.
        failed: Images left out because the target raised an error or answered with NaN or infinite scores.
        cause: Why the first of these failed; None if none did.
        detected: Images of which a query was refused, fooled or not.
        queries_until_detected: The mean over these of the number of the first query refused.
        coverage: The share of all queries that were refused; NaN if that is not known, as of rows cut to a smaller
            budget.
    """

    n: int
    successes: int
    asr: float
    mean_queries: float
    median_queries: float
    mean_queries_budget: float
    queries: int
    already_wrong: int
    failed: int = 0
    cause: str | None = None
    detected: int = 0
    queries_until_detected: float = math.nan
    coverage: float = 0.0

    def __str__(self) -> str:
        failed = f"; the target failed on {self.failed}, first with {self.cause}" if self.failed else ""
        found = f"; {self.detection}" if self.detected else ""
        return (
            f"{self.successes}/{self.n} fooled (ASR {self.asr:.1%}), AVG. Q {self.mean_queries:.1f}, "
            f"median {self.median_queries:g} (failures infinite), "
            f"mean {self.mean_queries_budget:.1f} (failures at the budget), {self.already_wrong} already wrong"
            f"{failed}{found}"
        )

    @property
    def detection(self) -> str:
        """What a detector saw of the attacks, in words."""
        share = "" if math.isnan(self.coverage) else f", {self.coverage:.1%} of queries refused"
        return f"{self.detected} detected after {self.queries_until_detected:.1f} queries on average{share}"


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
        import torch

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
        attacked = _attacked(self.outcomes)
        fooled = sum(outcome.success and outcome.queries <= queries for outcome in attacked)
        return fooled / len(attacked) if attacked else math.nan


class Spent(Protocol):
    """What an image cost and what for: an Outcome, or a row of a store."""

    @property
    def end(self) -> End:
        """Why it ended."""
        ...

    @property
    def success(self) -> bool:
        """Whether an adversarial image was found."""
        ...

    @property
    def queries(self) -> int:
        """Rows the target answered."""
        ...

    @property
    def budget(self) -> int:
        """The most queries it was allowed."""
        ...

    @property
    def cause(self) -> Exception | str | None:
        """What the target raised."""
        ...

    @property
    def refused(self) -> int | None:
        """Queries that a detector refused; None if that is not known."""
        ...

    @property
    def queries_until_detected(self) -> int | None:
        """Which query was refused first, counted from 1."""
        ...


S = TypeVar("S", bound=Spent)


def summarize(outcomes: Sequence[Spent]) -> Summary:
    """The numbers of any outcomes, from one run or from many."""
    attacked, failed = _attacked(outcomes), [outcome for outcome in outcomes if outcome.end.failed]
    spent = [outcome.queries for outcome in attacked if outcome.success]
    n, failures = len(attacked), [outcome for outcome in attacked if not outcome.success]
    ordered = sorted(spent) + [math.inf] * len(failures)
    detected = [first for outcome in attacked if (first := outcome.queries_until_detected) is not None]
    return Summary(
        n=n,
        successes=len(spent),
        asr=len(spent) / n if n else math.nan,
        mean_queries=sum(spent) / len(spent) if spent else math.nan,
        median_queries=(ordered[(n - 1) // 2] + ordered[n // 2]) / 2 if n else math.nan,
        mean_queries_budget=(sum(spent) + sum(o.budget for o in failures)) / n if n else math.nan,
        queries=sum(outcome.queries for outcome in attacked),
        already_wrong=sum(outcome.end is End.ALREADY_WRONG for outcome in outcomes),
        failed=len(failed),
        cause=_why(failed[0]) if failed else None,
        detected=len(detected),
        queries_until_detected=sum(detected) / len(detected) if detected else math.nan,
        coverage=_coverage(attacked),
    )


def _coverage(attacked: Sequence[Spent]) -> float:
    """The share of the queries that were refused; NaN where an image does not know."""
    queries, refused = sum(outcome.queries for outcome in attacked), [outcome.refused for outcome in attacked]
    known = [number for number in refused if number is not None]
    return sum(known) / max(queries, 1) if len(known) == len(refused) else math.nan


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
            f"robustness. The first cause: {_why(first)}"
        ) from first.cause


def _attacked(outcomes: Sequence[S]) -> list[S]:
    return [outcome for outcome in outcomes if outcome.end.attacked]


def _why(failed: Spent) -> str:
    """Why the target failed on an image, in words."""
    cause = failed.cause
    said = f"{type(cause).__name__}: {cause}" if isinstance(cause, Exception) else cause
    return (said or failed.end.sentence).rstrip(".")
