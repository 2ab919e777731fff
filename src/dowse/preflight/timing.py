"""How fast a target answers, for a plan: timed on copies of one image, and what else those answers tell."""

import math
from typing import NamedTuple

from torch import Tensor

from dowse.core.packing import default_batch_size
from dowse.core.target import Target
from dowse.preflight import reading
from dowse.preflight.asking import ROWS_FOR_SPEED, Asking
from dowse.preflight.findings import Finding
from dowse.settings import Outputs


class Timing(NamedTuple):
    """A target that was timed.

    Attributes:
        rows_per_second: How fast it answers, in batches as a run sends them.
        sent: Rows that it was handed for that; no image pays for them.
        findings: Whether it is in the right mode, answers with what it is said to, and one question in one way.
    """

    rows_per_second: float
    sent: int
    findings: tuple[Finding, ...]


def time_target(target: Target, x: Tensor, batch_size: int | None, seconds: float, outputs: Outputs) -> Timing:
    """Ask a target about one image, (C, H, W), in full batches for some seconds; of a remote one, a few rows.

    Args:
        target: Who is timed.
        x: The image, of the target's own kind.
        batch_size: Rows of a batch; None is what a run takes.
        seconds: About how long.
        outputs: What it is said to answer with.
    """
    rows = batch_size or target.rows_per_call or default_batch_size(x.unsqueeze(0))
    target.expect(outputs)
    asking = Asking(target, x.expand(rows, *x.shape), batch_size)
    asking.scores = asking.ask(asking.images)  # the first pass, which is slower than the others
    speed = asking.speed(seconds, ROWS_FOR_SPEED if target.remote else math.inf)
    findings = reading.mode(target), reading.clearly(asking.scores, outputs), asking.determinism()
    return Timing(speed, asking.sent, findings)
