"""The only holder of the target: packs questions into batches, asks, and turns scores into losses and verdicts."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dowse.delivery import Delivery
from dowse.errors import InputError
from dowse.flow import Answer
from dowse.losses import Objective

Target = Callable[..., Tensor]


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
class _Progress:
    """How far a request has come while its rows travel in several batches."""

    scores: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    sent: int = 0
    answered: int = 0
    cause: Exception | None = None


class _Span(NamedTuple):
    """Rows start to stop of request number `request`."""

    request: int
    start: int
    stop: int


class Oracle:
    """Answers questions about images with the target's scores.

    A target whose attribute `takes_row_seeds` is true is called as `target(points, seeds=(n,) int64)` and must draw
    its noise per row from them, so that an image's result does not depend on its neighbours. A target with a method
    `deliver` (see `dowse.delivery.Delivers`) accounts for its rows itself, one by one, as one that retries must; of any
    other, a call counts every row as sent once, and answered unless it raises.

    Args:
        target: From points (n, *s) in [0, 1] to scores (n, K).
        objective: What f and "adversarial" mean.
        batch_size: The most rows of one forward pass; None takes the target's `rows_per_call`, or chooses by the
            image's size.
        mask: What of the scores the attack sees, (n, K) -> (n, K); None shows them as they are.
    """

    def __init__(
        self,
        target: Target,
        objective: Objective,
        batch_size: int | None = None,
        mask: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise InputError(f"batch_size must be at least 1, got {batch_size}")
        if isinstance(target, nn.Module) and target.training:
            warnings.warn("the target is in training mode: call target.eval() first", stacklevel=4)
        self.target = target
        self.objective = objective
        self.batch_size = batch_size or getattr(target, "rows_per_call", None)
        self.mask = mask
        self.classes: int | None = None
        self._labels_to_check: set[int] = set()
        self.takes_row_seeds = bool(getattr(target, "takes_row_seeds", False))
        self.busy = 0.0  # seconds the target has worked on questions

    def learn_classes(self, like: Tensor) -> None:
        """Learn K by a forward pass of zero rows, where the target takes one; like is one image, (*s)."""
        if self.classes is not None:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = self._forward(like.new_empty((0, *like.shape)), torch.empty(0, dtype=torch.int64))
        except InputError:  # the target itself says that it cannot take such images
            raise
        except Exception:
            return
        if isinstance(scores, Tensor) and scores.ndim == 2 and scores.shape[1] > 0:
            self.classes = scores.shape[1]

    def check_label(self, label: int) -> None:
        """Raise InputError if a label cannot be one of the target's classes: now, or as soon as they are known."""
        if self.classes is None:
            self._labels_to_check.add(label)
        if label < 0 or (self.classes is not None and label >= self.classes):
            known = "K is not known yet" if self.classes is None else f"the target has {self.classes} classes"
            raise InputError(f"label {label} is out of range: {known}, labels count from 0")

    def ask(self, requests: Sequence[Request]) -> list[Reply]:
        """Send all requests in as few batches as possible; a batch that fails fails only the images in it."""
        asked, requests = requests, [request if request.repeats == 1 else request.rows() for request in requests]
        progress = [_Progress() for _ in requests]
        for gradient in (False, True):
            chosen = [i for i, request in enumerate(requests) if request.gradient == gradient]
            for batch in self._batches(requests, progress, chosen):
                begun = perf_counter()
                self._send(requests, progress, batch, gradient)
                self.busy += perf_counter() - begun
        if self.classes is not None and self._labels_to_check:
            self.check_label(max(self._labels_to_check))
            self._labels_to_check.clear()
        return self._replies(asked, progress)

    def _batches(
        self, requests: Sequence[Request], progress: Sequence[_Progress], chosen: Sequence[int]
    ) -> Iterator[list[_Span]]:
        """Full batches of rows in order; the rows of a request that has failed are left out."""
        batch: list[_Span] = []
        room = 0
        for i in chosen:
            n, start = len(requests[i].points), 0
            while start < n and progress[i].cause is None:
                if not batch:
                    room = self.batch_size or default_batch_size(requests[i].points)
                stop = min(n, start + room)
                batch.append(_Span(i, start, stop))
                room -= stop - start
                start = stop
                if room == 0:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def _send(
        self,
        requests: Sequence[Request],
        progress: Sequence[_Progress],
        batch: Sequence[_Span],
        gradient: bool,
    ) -> None:
        points = torch.cat([requests[i].points[start:stop] for i, start, stop in batch])  # a copy, the target's own
        seeds = [s[start:stop] for i, start, stop in batch if (s := requests[i].seeds) is not None]
        gradients: Tensor | None = None
        try:
            if gradient:
                scores, gradients = self._forward_backward(requests, points, batch, _join(seeds) if seeds else None)
                delivery = Delivery.whole(self._checked(scores, len(points)))
            else:
                delivery = self._deliver(points, _join(seeds) if seeds else None)
        except Exception as cause:
            delivery = Delivery.failed(len(points), cause)
        row, sent, answered = 0, delivery.sent.tolist(), delivery.answered.tolist()
        for i, start, stop in batch:
            rows = slice(row, row + stop - start)
            progress[i].sent += sum(sent[rows])
            progress[i].answered += sum(answered[rows])
            if not all(answered[rows]):
                progress[i].cause = delivery.cause or RuntimeError(
                    "the target left rows unanswered and did not say why"
                )
            elif delivery.scores is not None:
                progress[i].scores.append(delivery.scores[rows])
                if gradients is not None:
                    progress[i].gradients.append(gradients[rows])
            row = rows.stop

    def _deliver(self, points: Tensor, seeds: Tensor | None) -> Delivery:
        """Hand over one batch, its answers checked; raises only where no row has its own account."""
        deliver = getattr(self.target, "deliver", None)
        if deliver is None:
            return Delivery.whole(self._checked(self._forward(points, seeds), len(points)))
        delivery: Delivery = deliver(points, seeds=seeds) if self.takes_row_seeds else deliver(points)
        if delivery.scores is None:
            return delivery
        try:
            return replace(delivery, scores=self._checked(delivery.scores, len(points)))
        except TypeError as cause:
            return replace(delivery, scores=None, answered=torch.zeros_like(delivery.answered), cause=cause)

    def _forward(self, points: Tensor, seeds: Tensor | None) -> Tensor:
        with torch.no_grad():
            return self.target(points, seeds=seeds) if self.takes_row_seeds else self.target(points)

    def _forward_backward(
        self, requests: Sequence[Request], points: Tensor, batch: Sequence[_Span], seeds: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        labels = torch.tensor([requests[i].label for i, a, b in batch for _ in range(b - a)], device=points.device)
        with torch.enable_grad():
            points = points.detach().clone().requires_grad_()
            scores = self.target(points, seeds=seeds) if self.takes_row_seeds else self.target(points)
            (gradients,) = torch.autograd.grad(self.objective.value(scores, labels).sum(), points)
        return scores, gradients

    def _checked(self, scores: object, n: int) -> Tensor:
        """Scores as (n, K) float64 on the CPU, or a TypeError that says what came instead."""
        if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != n:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise TypeError(f"the target must answer {n} rows with a tensor ({n}, K), got {got}")
        if self.classes is None:
            self.classes = scores.shape[1]
        if scores.shape[1] != self.classes:
            raise TypeError(f"the target answered with {scores.shape[1]} classes, before with {self.classes}")
        return scores.detach().to("cpu", torch.float64)

    def _replies(self, asked: Sequence[Request], progress: Sequence[_Progress]) -> list[Reply]:
        """A reply to each request; the losses and verdicts of all their rows are computed at once."""
        replies = [Reply(None, r.label, d.sent, d.answered, d.cause) for r, d in zip(asked, progress, strict=True)]
        whole = [i for i, done in enumerate(progress) if done.cause is None]
        if not whole:
            return replies
        scores = _join([part for i in whole for part in progress[i].scores])
        scores = scores if self.mask is None else self.mask(scores)
        if any(asked[i].repeats > 1 for i in whole):
            parts = torch.split(scores, [len(asked[i].points) * asked[i].repeats for i in whole])
            scores = torch.cat([_mean(part, asked[i].repeats) for i, part in zip(whole, parts, strict=True)])
        predicted, finite = scores.argmax(1).tolist(), scores.isfinite().all(1).tolist()
        rows, stop = {}, 0
        for i in whole:
            rows[i] = slice(stop, stop := stop + len(asked[i].points))
        labels = {i: predicted[rows[i].start] if (given := asked[i].label) is None else given for i in whole}
        for label in labels.values():
            self.check_label(label)
        row_labels = torch.tensor([labels[i] for i in whole for _ in range(len(asked[i].points))])
        loss, adversarial = self.objective.value(scores, row_labels), self.objective.adversarial(scores, row_labels)
        verdicts = adversarial.tolist()
        telling = [rows[i].start + (verdicts[rows[i]] + [True]).index(True) % len(asked[i].points) for i in whole]
        confidence = self.objective.probabilities(scores[telling]).amax(1).tolist()
        for i, row, sure in zip(whole, telling, confidence, strict=True):
            own, gradients = rows[i], progress[i].gradients
            gradient = _mean(_join(gradients), asked[i].repeats) if gradients else None
            replies[i] = replies[i]._replace(
                answer=Answer(loss[own], adversarial[own], scores[own], gradient),
                label=labels[i],
                predicted=predicted[row],
                confidence=sure,
                finite=all(finite[own]),
            )
        return replies


def default_batch_size(points: Tensor) -> int:
    """Rows that keep a CPU's caches warm (8 at 3×224×224, 128 at 3×32×32) or a GPU full; points (n, *s)."""
    elements = 128 * 3 * 32 * 32 if points.device.type == "cpu" else 2**25
    return min(256, max(8, elements // max(1, points[0].numel())))


def _join(parts: Sequence[Tensor]) -> Tensor:
    """One tensor of all rows, without a copy where it is one already."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _mean(rows: Tensor, repeats: int) -> Tensor:
    """The mean of every `repeats` rows that follow one another: (n·repeats, *s) -> (n, *s)."""
    return rows if repeats == 1 else rows.view(-1, repeats, *rows.shape[1:]).mean(1)
