"""The checks that ask the target: does it answer, the same again, alone as in company, and how fast."""

import math
from time import perf_counter

import torch
from torch import Tensor

from dowse.core.oracle import Oracle
from dowse.core.reply import Request
from dowse.core.target import TargetLike
from dowse.maths.losses import Objective
from dowse.preflight import reading
from dowse.preflight.findings import Finding, Verdict, option
from dowse.wording import duration

PROBE = 1e-4  # the paper's σ, per pixel
LAST_BITS = 1e-4  # scores that differ by less, relative to the largest, differ by the arithmetic only
ROWS_FOR_SPEED = 256  # the most that measuring the speed may cost
BUDGET, SLOW = 10_000, 1200.0  # the paper's queries for one image, and the seconds from which they ask for a remedy


class Asking:
    """Asks as a run does, through an oracle, and counts.

    Args:
        target: From points (n, C, H, W) in [0, 1] to scores (n, K).
        images: A few images, (n, C, H, W).
        batch_size: The most rows of one forward pass; None leaves it to the target or the image's size.

    Attributes:
        scores: What it answered about the images, (n, K) float64; None until it did so well.
        queries: Rows answered.
        sent: Rows handed over.
        rate: Rows a second, once it was timed.
    """

    def __init__(self, target: TargetLike, images: Tensor, batch_size: int | None = None) -> None:
        self.oracle = Oracle(target, Objective(), batch_size)
        self.images = images
        self.scores: Tensor | None = None
        self.queries = self.sent = 0
        self.rate: float | None = None

    def ask(self, points: Tensor, seed: int = 0) -> Tensor:
        """Scores of points, (n, K) float64; raises what the target raised."""
        seeds = torch.arange(len(points)) + seed if self.oracle.takes_row_seeds else None
        (reply,) = self.oracle.ask([Request(points, 0, seeds)])
        self.queries, self.sent = self.queries + reply.answered, self.sent + reply.sent
        if reply.answer is None:
            raise reply.cause or RuntimeError("the target did not answer")
        return reply.answer.scores

    def answer(self) -> Finding:
        """Whether it answers with scores that can be used; they are kept for the other checks."""
        scores = self.ask(self.images)
        finding = reading.answer(scores)
        self.scores = scores if finding.verdict is Verdict.GOOD else None
        return finding

    def determinism(self) -> Finding:
        """The same images again; with other seeds where it draws its noise by seeds."""
        assert self.scores is not None
        again = self.ask(self.images)
        gap, changed = _gap(self.scores, again), int((self.scores.argmax(1) != again.argmax(1)).sum())
        if 2 * changed > len(again):
            found = f"the same images again: {changed} of {len(again)} have another label"
            remedy = "an attack on it succeeds by chance: dropout in training mode, or an input that never reaches it?"
            return Finding("determinism", Verdict.WRONG, found, remedy)
        if gap > 0:
            averages = f"{option('repeats', 4)} averages its noise (all counted)"
            remedy = f"{averages}, a larger sigma outweighs it, {option('verify', 3)} re-checks"
            return Finding("determinism", Verdict.NOTE, f"the same images again differ by {gap:.2g}", remedy)
        if not self.oracle.takes_row_seeds:
            return Finding("determinism", Verdict.GOOD, "the same images again give the same scores")
        gap = _gap(self.scores, self.ask(self.images, seed=len(self.images)))
        found = f"its noise is drawn per row by seed; other seeds differ by {gap:.2g}"
        remedy = f"a larger sigma outweighs the noise, {option('verify', 3)} re-checks"
        return Finding("determinism", Verdict.NOTE, found, remedy)

    def batch_dependence(self) -> Finding:
        """Each image alone against all at once; what noise does anyway is no dependence."""
        assert self.scores is not None
        gap = noise = 0.0
        for i in range(min(4, len(self.images))):
            alone, again = (self.ask(self.images[i : i + 1], seed=i) for _ in range(2))
            gap, noise = max(gap, _gap(self.scores[i : i + 1], alone)), max(noise, _gap(alone, again))
        if gap == 0 or gap <= 4 * noise:
            return Finding("batch", Verdict.GOOD, "an image's scores do not depend on its neighbours")
        found = f"an image's scores move by {gap:.2g} with its neighbours"
        if gap <= LAST_BITS:
            return Finding("batch", Verdict.GOOD, f"{found}: rounding only")
        remedy = "batch normalisation in training mode, or noise drawn per batch? Call eval(), draw noise per row"
        return Finding("batch", Verdict.WRONG, found, remedy)

    def sensitivity(self, objective: Objective) -> Finding:
        """Whether the loss moves when every pixel moves by the paper's σ, or by how much it must."""
        assert self.scores is not None
        rng = torch.Generator().manual_seed(0)
        signs = torch.randint(0, 2, self.images.shape, generator=rng).to(self.images) * 2 - 1
        labels = self.scores.argmax(1)
        f = objective.value(self.scores, labels)
        for σ in (PROBE, 10 * PROBE, 100 * PROBE):
            moved = int((objective.value(self.ask((self.images + σ * signs).clamp(0, 1)), labels) != f).sum())
            if 2 * moved >= len(f):
                break
        found = f"the loss of {moved} of {len(f)} images moves when each pixel moves by {σ:g}"
        if σ == PROBE:
            return Finding("sensitivity", Verdict.GOOD, found)
        if 2 * moved >= len(f):
            remedy = f"{option('sigma', σ)} saves growing it"
            return Finding("sensitivity", Verdict.NOTE, f"{found}, not by less", remedy)
        remedy = "it rounds its input or its output, or is very sure of its answer; σ grows by itself, at a price"
        return Finding("sensitivity", Verdict.NOTE, found, remedy)

    def speed(self, seconds: float, most_rows: float = math.inf) -> float:
        """Rows a second: it is asked about its images until so many seconds or rows are over."""
        rows, start = 0, perf_counter()
        while rows == 0 or (rows < most_rows and perf_counter() - start < seconds):
            self.ask(self.images)
            rows += len(self.images)
        return rows / max(perf_counter() - start, 1e-9)

    def throughput(self, seconds: float) -> Finding:
        """Rows a second, as a run would send them, and what they make of the paper's budget."""
        speed = self.rate = self.speed(seconds, ROWS_FOR_SPEED)
        rows = f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"
        found = f"{rows} rows a second; {BUDGET:,} take {duration(BUDGET / speed)}"
        if BUDGET / speed <= SLOW:
            return Finding("speed", Verdict.GOOD, found)
        remedy = (
            "on a CPU `dowse export` makes it faster; over http raise #connections= and the rate; or lower the budget"
        )
        return Finding("speed", Verdict.NOTE, found, remedy)


def _gap(scores: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest score where that is above 1."""
    return float((scores - other).abs().max() / scores.abs().max().clamp_min(1))
