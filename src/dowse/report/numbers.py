"""Numbers as all forms of the report say them."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from dowse.report.intervals import Interval
from dowse.report.model import Table
from dowse.report.names import NORMS

NONE = "–"
FORMULA = "√(0.001·D)"  # the paper's radius for ℓ₂, as dowse.maths.geometry has it


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


def images(n: int) -> str:
    """A number of images."""
    return "1 image" if n == 1 else f"{n:,} images"


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
    norm, words, known = NORMS.get(table.norm, table.norm), radius(table), [g.eps for g in table.groups]
    sizes = sorted({f"{eps:.3g}" for eps in known if words == FORMULA and not math.isnan(eps)})
    return f"{norm}, ε = {words}" + (f" = {', '.join(sizes)}" if sizes else "")


def radius(table: Table) -> str:
    """The radius of a table's ball: as it was asked for, else the paper's, for ℓ₂ as its formula."""
    if table.eps is None and table.norm == "l2":
        return FORMULA
    return f"{table.groups[0].eps if table.eps is None else table.eps:g}"


def short_captions(tables: Sequence[Table]) -> list[str]:
    """The shortest words that tell tables apart: the norm, where needed the radius and the budget."""
    norms, balls = [NORMS.get(table.norm, table.norm) for table in tables], [ball(table) for table in tables]
    captions = [caption(table) for table in tables]
    return next(words for words in (norms, balls, captions) if len(set(words)) == len(set(captions)))


def caption(table: Table) -> str:
    """What a table is about, in a sentence."""
    aim = "targeted, " if table.targeted else ""
    return f"{ball(table)}, {aim}at most {table.budget:,} queries an image"


def captions(tables: Sequence[Table]) -> list[str]:
    """What each table is about; those that share a caption name their targets too."""
    plain = [caption(table) for table in tables]
    return [
        said if plain.count(said) == 1 else f"{said}: {', '.join(group.name for group in table.groups)}"
        for said, table in zip(plain, tables, strict=True)
    ]
