"""One image's question and what becomes of it: the request, what came back, and the losses and verdicts in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
    """

    answer: Answer | None
    label: int | None
    sent: int
    answered: int
    cause: Exception | None
    predicted: int | None = None
    confidence: float | None = None
    finite: bool = True


@dataclass
class Received:
    """What has come of a request so far, while its rows travel in several batches."""

    scores: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    sent: int = 0
    answered: int = 0
    cause: Exception | None = None


def make_replies(
    asked: Sequence[Request],
    received: Sequence[Received],
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
    replies = [Reply(None, r.label, d.sent, d.answered, d.cause) for r, d in zip(asked, received, strict=True)]
    whole = [i for i, done in enumerate(received) if done.cause is None]
    if not whole:
        return replies
    scores = join([part for i in whole for part in received[i].scores])
    scores = scores if mask is None else mask(scores)
    if any(asked[i].repeats > 1 for i in whole):
        parts = torch.split(scores, [len(asked[i].points) * asked[i].repeats for i in whole])
        scores = torch.cat([_mean(part, asked[i].repeats) for i, part in zip(whole, parts, strict=True)])
    predicted, finite = scores.argmax(1).tolist(), scores.isfinite().all(1).tolist()
    rows, stop = {}, 0
    for i in whole:
        rows[i] = slice(stop, stop := stop + len(asked[i].points))
    labels = {i: predicted[rows[i].start] if (given := asked[i].label) is None else given for i in whole}
    for label in labels.values():
        check_label(label)
    row_labels = torch.tensor([labels[i] for i in whole for _ in range(len(asked[i].points))])
    loss, adversarial = objective.value(scores, row_labels), objective.adversarial(scores, row_labels)
    verdicts = adversarial.tolist()
    telling = [rows[i].start + (verdicts[rows[i]] + [True]).index(True) % len(asked[i].points) for i in whole]
    confidence = objective.probabilities(scores[telling]).amax(1).tolist()
    for i, row, sure in zip(whole, telling, confidence, strict=True):
        own, gradients = rows[i], received[i].gradients
        gradient = _mean(join(gradients), asked[i].repeats) if gradients else None
        replies[i] = replies[i]._replace(
            answer=Answer(loss[own], adversarial[own], scores[own], gradient),
            label=labels[i],
            predicted=predicted[row],
            confidence=sure,
            finite=all(finite[own]),
        )
    return replies


def join(parts: Sequence[Tensor]) -> Tensor:
    """One tensor of all rows, without a copy where it is one already."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _mean(rows: Tensor, repeats: int) -> Tensor:
    """The mean of every `repeats` rows that follow one another: (n·repeats, *s) -> (n, *s)."""
    return rows if repeats == 1 else rows.view(-1, repeats, *rows.shape[1:]).mean(1)
