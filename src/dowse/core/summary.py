"""What the outcomes of many images amount to, be they fresh or rows of a store."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dowse.core.outcome import End
from dowse.errors import in_words
from dowse.wording import number, percent


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
            f"{self.successes}/{self.n} fooled (ASR {percent(self.asr)}), AVG. Q {number(self.mean_queries, '.1f')}, "
            f"median {number(self.median_queries, 'g')} (failures infinite), "
            f"mean {number(self.mean_queries_budget, '.1f')} (failures at the budget), "
            f"{self.already_wrong} already wrong"
            f"{failed}{found}"
        )

    @property
    def detection(self) -> str:
        """What a detector saw of the attacks, in words."""
        share = "" if math.isnan(self.coverage) else f", {self.coverage:.1%} of queries refused"
        return f"{self.detected} detected after {self.queries_until_detected:.1f} queries on average{share}"


class Spent(Protocol):
    """What an image cost and what for: an Outcome, or a row of a store."""

    @property
    def end(self) -> End:
        """Why it ended."""

    @property
    def success(self) -> bool:
        """Whether an adversarial image was found."""

    @property
    def queries(self) -> int:
        """Rows the target answered."""

    @property
    def budget(self) -> int:
        """The most queries it was allowed."""

    @property
    def cause(self) -> Exception | str | None:
        """What the target raised."""

    @property
    def refused(self) -> int | None:
        """Queries that a detector refused; None if that is not known."""

    @property
    def queries_until_detected(self) -> int | None:
        """Which query was refused first, counted from 1."""


S = TypeVar("S", bound=Spent)


def summarize(outcomes: Sequence[Spent]) -> Summary:
    """The numbers of any outcomes, from one run or from many."""
    attacked, failed = attacked_of(outcomes), [outcome for outcome in outcomes if outcome.end.failed]
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
        cause=why_failed(failed[0]) if failed else None,
        detected=len(detected),
        queries_until_detected=sum(detected) / len(detected) if detected else math.nan,
        coverage=_coverage(attacked),
    )


def _coverage(attacked: Sequence[Spent]) -> float:
    """The share of the queries that were refused; NaN where an image does not know."""
    queries, refused = sum(outcome.queries for outcome in attacked), [outcome.refused for outcome in attacked]
    known = [number for number in refused if number is not None]
    return sum(known) / max(queries, 1) if len(known) == len(refused) else math.nan


def attacked_of(outcomes: Sequence[S]) -> list[S]:
    """Those that count."""
    return [outcome for outcome in outcomes if outcome.end.attacked]


def why_failed(failed: Spent) -> str:
    """Why the target failed on an image, in words."""
    cause = failed.cause
    said = in_words(cause) if isinstance(cause, Exception) else cause
    return (said or failed.end.sentence).rstrip(".")
