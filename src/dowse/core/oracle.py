"""The only holder of the target: packs questions into batches and asks."""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from dowse.core.asked import Asked, Reserve
from dowse.core.calls import Calls
from dowse.core.packing import (
    WIDER,
    Batch,
    Span,
    default_batch_size,
    filled,
    full_batches,
    numbers_of_a_row,
    shared_rows,
    steady_batches,
)
from dowse.core.reply import PartialReply, Reply, Request, join, make_replies
from dowse.core.same_bits import same_bits
from dowse.core.seeds import global_randomness
from dowse.core.target import Delivery, TargetLike, as_target, checked_scores
from dowse.errors import InputError
from dowse.maths.losses import Objective


class FirstAnswer(NamedTuple):
    """One of the first questions of a run and all that the target says to it, (n, K), before any mask."""

    request: Request
    scores: Tensor


class Oracle:
    """Answers questions about images with the target's scores.

    Args:
        target: From points (n, *s) in [0, 1] to scores (n, K); see `dowse.core.target` for its parts.
        objective: What f and "adversarial" mean.
        batch_size: The most rows of one forward pass; None takes the target's `rows_per_call`, or chooses by the
            image's size.
        mask: What of the scores the attack sees, (n, K) -> (n, K); None shows them as they are.

    Attributes:
        on_first_answers: Called once, with the first questions that are answered, before anybody hears of it, and with
            whether the target drew from a global random generator meanwhile.
    """

    on_first_answers: Callable[[Sequence[FirstAnswer], bool], None] | None = None

    def __init__(
        self,
        target: TargetLike,
        objective: Objective,
        batch_size: int | None = None,
        mask: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.target = as_target(target)
        self.objective = objective
        self.batch_size = batch_size or self.target.rows_per_call
        self.mask = mask
        self.classes: int | None = None
        self._labels_to_check: set[int] = set()
        self.takes_row_seeds = self.target.takes_row_seeds
        self.device = None if self.target.kind is None else self.target.kind.device  # rows go there batch by batch
        self.calls = Calls(self.target.calls_at_once)
        self._sending = threading.local()  # what each thread sends
        self._busy = 0.0
        self._wider: bool | None = None  # not tried yet

    def learn_classes(self, like: Tensor) -> None:
        """Learn K by a forward pass of zero rows, where the target takes one; like is one image, (*s)."""
        if self.classes is not None:
            return
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                seeds = torch.empty(0, dtype=torch.int64) if self.takes_row_seeds else None
                scores = checked_scores(self.target(like.new_empty((0, *like.shape), device=self.device), seeds), 0)
        except InputError:  # the target itself says that it cannot take such images
            raise
        except Exception:
            return
        self.classes = scores.shape[1] or None

    def check_label(self, label: int) -> None:
        """Raise InputError if a label cannot be one of the target's classes: now, or as soon as they are known."""
        if self.classes is None:
            self._labels_to_check.add(label)
        if label < 0 or (self.classes is not None and label >= self.classes):
            known = "K is not known yet" if self.classes is None else f"the target has {self.classes} classes"
            raise InputError(f"label {label} is out of range: {known}, labels count from 0")

    def pass_size(self, points: Tensor, rows: int) -> int:
        """How many rows share a pass with those of a question about points, (n, *s): 1 if it has passes of its own.

        0 where all rows there are go in one, of whatever size.
        """
        shared = self._shared_rows(points)
        if rows >= shared:
            return min(1, shared)
        return 0 if self.target.exact else shared

    def ask(self, requests: Sequence[Request], reserve: Reserve | None = None) -> list[Reply]:
        """Send all requests in as few batches as possible; a batch that fails fails only the images in it.

        `reserve` is called before anything is sent, with the rows of all requests, and again with those that a target
        is about to send once more. What it raises ends the call.
        """
        before = None if self.on_first_answers is None else global_randomness()
        asked = Asked.of(requests, self.at_home(reserve))
        self.calls.do(lambda: self.send_all(asked))
        self._check_labels()
        if before is not None:
            self._tell_first(asked.rows, asked.progress, drew=global_randomness() != before)
        return self.replies([asked])

    def pieces(self, asked: Asked, most: int) -> list[Asked]:
        """What is asked in up to `most` pieces whose passes are those of the whole, to be sent side by side.

        Only the question of a single image to a network of this process is cut: others send rows side by side anyway.
        """
        points, rows = asked.rows[0].points, asked.rows[0].n
        if most == 1 or len(asked.rows) > 1 or not 1 <= self._shared_rows(points) <= rows:
            return [asked]
        return asked.pieces(most, self.batch_size or default_batch_size(points, self.device))

    def send_all(self, asked: Asked) -> None:
        """Send everything, batch by batch, in whichever thread; raises what `reserve` refuses."""
        self._sending.reservation = asked.reservation
        self.target.tell_resends(self._again)
        for gradient in (False, True):
            chosen = [i for i, request in enumerate(asked.rows) if request.gradient == gradient]
            for batch in self._batches(asked.rows, asked.progress, chosen):
                asked.reservation.calling([i for i, start, stop in batch.spans for _ in range(start, stop)])
                self._send(asked.rows, asked.progress, batch, gradient)
                if asked.reservation.refused is not None:
                    raise asked.reservation.refused

    def replies(self, arrived: Sequence[Asked]) -> list[Reply]:
        """The replies to all that was sent, one after the other."""
        self._check_labels()
        requests = [request for asked in arrived for request in asked.requests]
        progress = [got for asked in arrived for got in asked.progress]
        return make_replies(requests, progress, self.objective, self.mask, self.check_label)

    def at_home(self, reserve: Reserve | None) -> Reserve | None:
        """`reserve`, called in the thread that asks, whichever sends."""
        calls = self.calls
        return None if reserve is None else lambda rows: calls.at_home(lambda: reserve(rows))

    def give_up(self) -> None:
        """Take up nothing more of what is under way."""
        self.calls.give_up()
        self._busy, self.calls = self.busy, Calls(self.target.calls_at_once)

    @property
    def busy(self) -> float:
        """Seconds during which the target has worked on questions."""
        return self._busy + self.calls.busy

    def _again(self, rows: slice) -> None:
        """Rows of the call in this thread are about to be handed over again."""
        self._sending.reservation.again(rows)

    def _check_labels(self) -> None:
        if self.classes is not None and self._labels_to_check:
            self.check_label(max(self._labels_to_check))
            self._labels_to_check.clear()

    def _tell_first(self, requests: Sequence[Request], progress: Sequence[PartialReply], *, drew: bool) -> None:
        pairs = zip(requests, progress, strict=True)
        answers = [FirstAnswer(request, join(got.scores)) for request, got in pairs if got.cause is None]
        if answers and (tell := self.on_first_answers) is not None:
            self.on_first_answers = None
            tell(answers, drew)

    def _batches(
        self, requests: Sequence[Request], progress: Sequence[PartialReply], chosen: Sequence[int]
    ) -> Iterator[Batch]:
        """The rows of the requests chosen in batches; those of a request that has failed are left out."""
        if not chosen:
            return iter(())
        points, rows = requests[chosen[0]].points, [request.n for request in requests]
        size = self.batch_size or default_batch_size(points, self.device)

        def failed(i: int) -> bool:
            return progress[i].cause is not None

        if shared := self._shared_rows(points):
            few = sum(rows[i] for i in chosen if rows[i] < shared)
            wider = self._wider_rows(points, shared) if shared < WIDER <= min(few, size) else None
            return steady_batches(rows, chosen, size, shared, failed, wider, copies=not self.target.exact)
        return full_batches(rows, chosen, size, failed)

    def _shared_rows(self, points: Tensor) -> int:
        """Below how many rows a question about such points, (n, *s), shares passes; 0 where these are of any size."""
        if not self.target.steady or (self.device or points.device).type != "cpu":
            return 0
        return shared_rows(numbers_of_a_row(points), self.batch_size or default_batch_size(points, self.device))

    def _wider_rows(self, points: Tensor, shared: int) -> int | None:
        """How many rows of points, (n, *s), share a pass instead of `shared`, as none of their bits changes.

        Tried once, when there are as many for the first time; torch alone gains by it.
        """
        if self.device is None or self.takes_row_seeds or self.classes is None:
            return None
        if self._wider is None:
            self._wider = same_bits(self.target, points, WIDER, (shared,))
        return WIDER if self._wider else None

    def _send(
        self,
        requests: Sequence[Request],
        progress: Sequence[PartialReply],
        batch: Batch,
        gradient: bool,
    ) -> None:
        points = torch.cat([requests[i].part(start, stop) for i, start, stop in batch.spans])  # a copy, the target's
        points = filled(points, batch.size)
        points, home = points if self.device is None else points.to(self.device), points.device
        parts = [s[start:stop] for i, start, stop in batch.spans if (s := requests[i].seeds) is not None]
        seeds = filled(join(parts), batch.size) if parts else None
        gradients: Tensor | None = None
        try:
            if gradient:
                said, gradients = self._forward_backward(requests, points, batch.spans, seeds)
                gradients = gradients.to(home)
                delivery = Delivery.whole(self._checked(said, len(points)))
            else:
                delivery = self._deliver(points, seeds)
        except Exception as cause:
            delivery = Delivery.failed(len(points), cause)
        row, sent, answered = 0, delivery.sent.tolist(), delivery.answered.tolist()
        scores = batch.parts(delivery.scores)
        for place, (i, start, stop) in enumerate(batch.spans):
            rows = slice(row, row + stop - start)
            progress[i].sent += sum(sent[rows])
            progress[i].answered += sum(answered[rows])
            if not all(answered[rows]):
                progress[i].cause = delivery.cause or RuntimeError(
                    "the target left rows unanswered and did not say why"
                )
            elif scores is not None:
                progress[i].scores.append(scores[place])
                if gradients is not None:
                    progress[i].gradients.append(gradients[rows])
            row = rows.stop

    def _deliver(self, points: Tensor, seeds: Tensor | None) -> Delivery:
        """Hand over one batch, its answers checked."""
        with torch.no_grad():
            delivery = self.target.deliver(points, seeds)
        if delivery.scores is None:
            return delivery
        try:
            checked = self._checked(delivery.scores, len(points))
            return Delivery(checked, delivery.sent, delivery.answered, delivery.cause)
        except TypeError as cause:
            return replace(delivery, scores=None, answered=torch.zeros_like(delivery.answered), cause=cause)

    def _forward_backward(
        self, requests: Sequence[Request], points: Tensor, spans: Sequence[Span], seeds: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        labels = torch.tensor([requests[i].label for i, a, b in spans for _ in range(b - a)], device=points.device)
        labels = filled(labels, len(points))
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            scores = self.target(points.clone(), seeds)  # a copy, which a net that normalises in place may overwrite
            (gradients,) = torch.autograd.grad(self.objective.value(scores.double(), labels).sum(), points)
        return scores, gradients

    def _checked(self, answer: object, n: int) -> Tensor:
        """Scores as (n, K) float64 on the CPU, or a TypeError that says what came instead."""
        scores = checked_scores(answer, n)
        if self.classes is None:
            self.classes = scores.shape[1]
        if scores.shape[1] != self.classes:
            raise TypeError(f"the target answered with {scores.shape[1]} classes, before with {self.classes}")
        return scores.detach().to("cpu", torch.float64)
