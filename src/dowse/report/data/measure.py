"""From rows to numbers: what the images of one run amount to, and how fast they were asked."""

import math
from collections.abc import Mapping, Sequence

from dowse.core.result import summarize
from dowse.report.data.intervals import bootstrap_mean, median_interval, wilson
from dowse.report.data.model import Numbers
from dowse.report.data.success_curve import success_curve
from dowse.store import Row


def measure(rows: Sequence[Row], budget: int, rate: float = math.nan) -> Numbers:
    """What the rows of one run amount to; `rate` is how many queries a second it asked."""
    attacked = [row for row in rows if row.end.attacked]
    taken = [row.queries for row in attacked if row.success]
    return Numbers(
        summary=summarize(rows),
        asr_interval=wilson(len(taken), len(attacked)),
        mean_interval=bootstrap_mean(taken),
        median_interval=median_interval([row.queries if row.success else math.inf for row in attacked]),
        curve=success_curve(taken, len(attacked), budget),
        rate=rate,
    )


def queries_a_second(rows: Sequence[Row], began: Mapping[int, float]) -> float:
    """Of one process: the queries of the images that ended, from a run's first to its last in each process.

    Of an image that another process began, the share counts that its time here is of all its time. `began` says when
    each process did, in seconds since 1970.
    """
    seconds = queries = 0.0
    for session in {row.session for row in rows}:
        mine = [row for row in rows if row.session == session]
        start = began.get(session, 0.0)
        seconds += max(row.finished for row in mine) - max(min(row.finished - row.seconds for row in mine), start)
        queries += sum(row.queries * min(1.0, (row.finished - start) / max(row.seconds, 1e-9)) for row in mine)
    return queries / seconds if seconds > 0 else math.nan
