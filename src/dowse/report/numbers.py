"""Numbers as all forms of the report say them."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from dowse.report.intervals import Interval
from dowse.report.model import Table
from dowse.report.names import NORMS

NONE = "–"


def percent(share: float) -> str:
    """A share in per cent to one decimal, – where there is none."""
    return NONE if math.isnan(share) else f"{100 * share:.1f}%"


def queries(value: float) -> str:
    """A number of queries: whole, to one decimal below ten, ∞, or – where there is none."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞"
    return f"{value:.1f}" if value < 9.95 and value != int(value) else f"{math.floor(value + 0.5):,}"


def percent_interval(interval: Interval) -> str:
    """An interval of shares, in per cent."""
    low, high = interval
    return "" if math.isnan(low) else f"{100 * low:.1f}–{100 * high:.1f}"


def queries_interval(interval: Interval) -> str:
    """An interval of queries."""
    low, high = interval
    return "" if math.isnan(low) else f"{queries(low)}–{queries(high)}"


def p_value(p: float) -> str:
    """A p-value, to two digits."""
    return "<0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def day(seconds: float) -> str:
    """A day of the calendar, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def minute(seconds: float) -> str:
    """A time to the minute, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def ball(table: Table) -> str:
    """The ball of a table in words: its norm and its radius, with the paper's formula where that was taken."""
    norm = NORMS.get(table.norm, table.norm)
    radii = [group.eps for group in table.groups if not math.isnan(group.eps)]
    if table.eps is None and table.norm == "l2":
        sizes = sorted({f"{radius:.3g}" for radius in radii})
        return f"{norm}, ε = √(0.001·D)" + (f" = {', '.join(sizes)}" if sizes else "")
    return f"{norm}, ε = {0.05 if table.eps is None else table.eps:g}"


def short_captions(tables: Sequence[Table]) -> list[str]:
    """The shortest words that tell tables apart: the norm, where needed the radius and the budget."""
    norms, balls = [NORMS.get(table.norm, table.norm) for table in tables], [ball(table) for table in tables]
    captions = [caption(table) for table in tables]
    return next(words for words in (norms, balls, captions) if len(set(words)) == len(set(captions)))


def caption(table: Table) -> str:
    """What a table is about, in a sentence."""
    aim = "targeted, " if table.targeted else ""
    return f"{ball(table)}, {aim}at most {table.budget:,} queries an image"
