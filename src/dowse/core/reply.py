"""One image's question and what becomes of it: the request, what came back, and the losses and verdicts in it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from dowse.core.flow import Answer
from dowse.maths.losses import Objective


@dataclass
class Request:
    """One image's question.

    Attributes:
        points: The rows to send, (n, *s).
        label: The label the objective is about; None means the target's own label of the first row.
        seeds: A seed for each row and repeat, (n·repeats,), for targets that draw noise.
        gradient: Whether the gradient of f is wanted too.
        repeats: How often each row is sent; the scores it is answered with are the mean.
    """

    points: Tensor
    label: int | None
    seeds: Tensor | None = None
    gradient: bool = False
    repeats: int = 1

    @property
    def n(self) -> int:
        """How many rows it has."""
        return self.points.shape[0]

    def part(self, start: int, stop: int) -> Tensor:
        """The points start to stop, (stop − start, *s)."""
        return self.points if stop - start == self.n else self.points[start:stop]

    def cut(self, start: int, stop: int) -> "Request":
        """The question about these rows alone, of one that is asked row by row."""
        seeds = None if self.seeds is None else self.seeds[start:stop]
        return replace(self, points=self.part(start, stop), seeds=seeds)

    def rows(self) -> "Request":
        """The same question row by row, each row as often as it is sent."""
        return replace(self, points=self.points.repeat_interleave(self.repeats, 0), repeats=1)


class Reply(NamedTuple):
    """What became of a request: an answer, or the cause why there is none, and how many rows went and came back.

    Attributes:
        answer: What the attack hears; None if a row was not answered.
        label: The label the objective was about.
        sent: Rows handed to the target.
        answered: Rows that came back.
        cause: Why there is no answer.
        predicted: The target's own label of the first adversarial row, or else of the first row.
        confidence: The probability that the target gives this label.
        finite: Whether all scores were.
        refused: The rows that a detector left without scores, (n,) bool; those among the first `answered` were refused,
            the others not asked any more. None where all rows have scores, or the question failed.
    """

    answer: Answer | None
    label: int | None
    sent: int
    answered: int
    cause: Exception | None
    predicted: int | None = None
    confidence: float | None = None
    finite: bool = True
    refused: Tensor | None = None

    @property
    def refusals(self) -> int:
        """How many rows were refused; they are among those answered."""
        return 0 if self.refused is None else int(self.refused[: self.answered].sum())

    @property
    def first_refusal(self) -> int | None:
        """Which row was refused first, counted from 1."""
        return None if self.refused is None else self.refused.tolist().index(True) + 1

    @property
    def last(self) -> int | None:
        """The last row that has scores of its own; None if none has."""
        if self.answer is None or self.refused is None:
            return None if self.answer is None else self.answer.loss.shape[0] - 1
        return max((row for row, refused in enumerate(self.refused.tolist()) if not refused), default=None)


@dataclass
class PartialReply:
    """What has come of a request so far, while its rows travel in several batches."""

    scores: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    sent: int = 0
    answered: int = 0
    cause: Exception | None = None


def make_replies(
    asked: Sequence[Request],
    received: Sequence[PartialReply],
    objective: Objective,
    mask: Callable[[Tensor], Tensor] | None,
    check_label: Callable[[int], None],
) -> list[Reply]:
    """A reply to each request; the losses and verdicts of all their rows are computed at once.

    Args:
        asked: The requests.
        received: What came of each.
        objective: What f and "adversarial" mean.
        mask: What of the scores the attack sees, (n, K) -> (n, K); None shows them as they are.
        check_label: Raises if a label cannot be one of the target's classes.
    """
    whole = [(request, got) for request, got in zip(asked, received, strict=True) if got.cause is None]
    answered = iter(_answered(whole, objective, mask, check_label) if whole else [])
    return [
        next(answered) if got.cause is None else Reply(None, request.label, got.sent, got.answered, got.cause)
        for request, got in zip(asked, received, strict=True)
    ]


def _answered(
    whole: Sequence[tuple[Request, PartialReply]],
    objective: Objective,
    mask: Callable[[Tensor], Tensor] | None,
    check_label: Callable[[int], None],
) -> list[Reply]:
    """The replies to requests all of whose rows came back: K scores a row, of all requests one below the other."""
    scores = _scores_seen(whole, mask)
    lengths = [request.n for request, _ in whole]
    rows = [slice(stop - n, stop) for n, stop in zip(lengths, accumulate(lengths), strict=True)]
    predicted, finite = scores.argmax(1).tolist(), _finite(scores)
    labels = [
        predicted[own.start] if request.label is None else request.label
        for (request, _), own in zip(whole, rows, strict=True)
    ]
    for label in labels:
        check_label(label)
    row_labels = torch.tensor([label for label, own in zip(labels, rows, strict=True) for _ in predicted[own]])
    loss, adversarial = objective.value(scores, row_labels), objective.adversarial(scores, row_labels)
    telling = _telling_rows(adversarial.tolist(), rows)
    told = scores if len(telling) == len(predicted) else scores[telling]  # which copies them, one number at a time
    confidence = objective.probabilities(told).amax(1).tolist()
    answers = zip(*(_split(of_all, lengths) for of_all in (loss, adversarial, scores)), strict=True)
    return [
        Reply(
            Answer(f, fooled, seen, _gradient(request, got)),
            label,
            got.sent,
            got.answered,
            cause=None,
            predicted=predicted[row],
            confidence=sure,
            finite=all(finite[own]),
        )
        for (request, got), (f, fooled, seen), own, label, row, sure in zip(
            whole, answers, rows, labels, telling, confidence, strict=True
        )
    ]


def _scores_seen(whole: Sequence[tuple[Request, PartialReply]], mask: Callable[[Tensor], Tensor] | None) -> Tensor:
    """What the attack sees of the scores of all rows, (rows, K): masked, and the mean of each row's repeats."""
    scores = join([part for _, got in whole for part in got.scores])
    scores = scores if mask is None else mask(scores)
    if all(request.repeats == 1 for request, _ in whole):
        return scores
    parts = torch.split(scores, [request.n * request.repeats for request, _ in whole])
    return torch.cat([_mean(part, request.repeats) for (request, _), part in zip(whole, parts, strict=True)])


def _finite(scores: Tensor) -> list[bool]:
    """Which rows of scores, (n, K), are finite throughout; looked at one by one only where their sum is not."""
    if math.isfinite(scores.sum()):
        return [True] * len(scores)
    each: list[bool] = scores.isfinite().all(1).tolist()
    return each


def _telling_rows(verdicts: Sequence[bool], rows: Sequence[slice]) -> list[int]:
    """The row that tells most of each request: its first adversarial one, or else its first."""
    return [next((row for row in range(own.start, own.stop) if verdicts[row]), own.start) for own in rows]


def _gradient(request: Request, got: PartialReply) -> Tensor | None:
    """The gradient of f at each row, (n, *s), where it was asked for."""
    return _mean(join(got.gradients), request.repeats) if got.gradients else None


def join(parts: Sequence[Tensor]) -> Tensor:
    """One tensor of all rows, without a copy where it is one already."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _split(of_all: Tensor, lengths: list[int]) -> Sequence[Tensor]:
    """Each request's part; one that is alone has all, and most are."""
    return [of_all] if len(lengths) == 1 else torch.split(of_all, lengths)


def _mean(rows: Tensor, repeats: int) -> Tensor:
    """The mean of every `repeats` rows that follow one another: (n·repeats, *s) -> (n, *s)."""
    return rows if repeats == 1 else rows.view(-1, repeats, *rows.shape[1:]).mean(1)
