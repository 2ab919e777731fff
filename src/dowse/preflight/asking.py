"""The checks that ask the target: does it answer, the same again, alone as in company, and how fast."""

import math
from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

from dowse.losses import Objective
from dowse.oracle import Oracle, Request
from dowse.preflight.findings import Finding, Verdict

PROBE = 1e-4  # the paper's σ, per pixel
LAST_BITS = 1e-4  # scores that differ by less, relative to the largest, differ by the arithmetic only


class Asking:
    """Asks through an oracle, as a run does, and counts."""

    def __init__(self, target: Callable[..., Tensor], images: Tensor) -> None:
        self.oracle = Oracle(target, Objective())
        self.images = images
        self.scores: Tensor | None = None
        self.queries = self.sent = 0

    def ask(self, points: Tensor, seed: int = 0) -> Tensor | Exception:
        """Scores of points, (n, K) float64, or why there are none."""
        seeds = torch.arange(len(points)) + seed if self.oracle.takes_row_seeds else None
        (reply,) = self.oracle.ask([Request(points, 0, seeds)])
        self.queries, self.sent = self.queries + reply.answered, self.sent + reply.sent
        if reply.answer is None:
            return reply.cause or RuntimeError("the target did not answer")
        return reply.answer.scores

    def first(self) -> Finding:
        scores = self.ask(self.images)
        if isinstance(scores, Exception):
            return Finding(
                "answer",
                Verdict.WRONG,
                f"{type(scores).__name__}: {scores}",
                "a target takes points (n, C, H, W) in [0, 1] and answers with scores (n, K); check the image size",
            )
        if not scores.isfinite().all():
            return Finding("answer", Verdict.WRONG, "scores hold NaN or infinity", "mend the target; such images fail")
        n, k = scores.shape
        if k < 2:
            return Finding("answer", Verdict.WRONG, f"shape ({n}, {k})", "an attack needs the scores of two classes")
        if n > 1 and bool((scores == scores[0]).all()):
            return Finding(
                "answer",
                Verdict.WRONG,
                f"the same scores for {n} different images",
                "check the scale of its input: it may expect 0 … 255, or normalise twice",
            )
        self.scores = scores
        return Finding("answer", Verdict.GOOD, f"{n} images, {k} classes, scores in {_interval(scores)}")

    def determinism(self) -> Finding:
        """The same images again: with the same seeds where it draws noise by seeds, then with others."""
        assert self.scores is not None
        again = self.ask(self.images)
        if isinstance(again, Exception):
            return _failed("determinism", again)
        gap = _gap(self.scores, again)
        if gap > 0:
            remedy = "repeats=4 averages its noise (all counted), a larger sigma= outweighs it, verify=3 re-checks"
            return Finding("determinism", Verdict.NOTE, f"the same images again differ by {gap:.2g}", remedy)
        if not self.oracle.takes_row_seeds:
            return Finding("determinism", Verdict.GOOD, "the same images again give the same scores")
        other = self.ask(self.images, seed=len(self.images))
        if isinstance(other, Exception):
            return _failed("determinism", other)
        gap = _gap(self.scores, other)
        found = f"its noise is drawn per row by seed; other seeds differ by {gap:.2g}"
        return Finding("determinism", Verdict.NOTE, found, "a larger sigma= outweighs the noise, verify=3 re-checks")

    def batch_dependence(self) -> Finding:
        """Each image alone against all at once; what noise does anyway is no dependence."""
        assert self.scores is not None
        gap = noise = 0.0
        for i, image in enumerate(self.images[:4].split(1)):
            alone, again = self.ask(image, seed=i), self.ask(image, seed=i)
            for answer in (alone, again):
                if isinstance(answer, Exception):
                    return _failed("batch", answer)
            assert isinstance(alone, Tensor) and isinstance(again, Tensor)
            gap, noise = max(gap, _gap(self.scores[i : i + 1], alone)), max(noise, _gap(alone, again))
        if gap == 0 or gap <= 4 * noise:
            return Finding("batch", Verdict.GOOD, "an image's scores do not depend on its neighbours")
        if gap <= LAST_BITS:
            return Finding(
                "batch", Verdict.GOOD, f"an image's scores move by {gap:.2g} with its neighbours: rounding only"
            )
        return Finding(
            "batch",
            Verdict.WRONG,
            f"an image's scores move by {gap:.2g} with its neighbours",
            "batch normalisation in training mode, or noise drawn per batch? Call eval(), draw noise per row",
        )

    def sensitivity(self, objective: Objective) -> Finding:
        """Whether the loss moves when pixels move by the paper's σ."""
        assert self.scores is not None
        rng = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, self.images.shape, generator=rng).to(self.images) * 2 - 1
        labels = self.scores.argmax(1)
        f = objective.value(self.scores, labels)
        for factor in (1, 10, 100):
            scores = self.ask((self.images + factor * PROBE * signs).clamp(0, 1))
            if isinstance(scores, Exception):
                return _failed("sensitivity", scores)
            moved = int((objective.value(scores, labels) != f).sum())
            if 2 * moved >= len(f):
                break
        found = f"the loss of {moved} of {len(f)} images moves when each pixel moves by {factor * PROBE:g}"
        if factor == 1:
            return Finding("sensitivity", Verdict.GOOD, found)
        if 2 * moved >= len(f):
            return Finding(
                "sensitivity", Verdict.NOTE, f"{found}, less by less", f"sigma={factor * PROBE:g} saves growing it"
            )
        return Finding(
            "sensitivity",
            Verdict.NOTE,
            found,
            "it rounds its input or its output, or is sure of its answer; σ grows by itself, at a price",
        )

    def throughput(self, seconds: float) -> Finding:
        """Rows a second, as a run would send them."""
        rows, start = 0, perf_counter()
        while rows == 0 or perf_counter() - start < seconds:
            if isinstance(self.ask(self.images), Exception):
                break
            rows += len(self.images)
        speed = rows / max(perf_counter() - start, 1e-9)
        hours = 10_000 / speed / 3600 if speed else math.inf
        return Finding("speed", Verdict.GOOD, f"{speed:.3g} rows a second; 10,000 queries take {hours:.2g} hours")


def _failed(check: str, cause: Exception) -> Finding:
    return Finding(
        check, Verdict.WRONG, f"it answered before, now {type(cause).__name__}: {cause}", "see the target's log"
    )


def _gap(scores: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest score where that is above 1."""
    return float((scores - other).abs().max() / scores.abs().max().clamp_min(1))


def _interval(scores: Tensor) -> str:
    return f"[{float(scores.min()):.3g}, {float(scores.max()):.3g}]"
