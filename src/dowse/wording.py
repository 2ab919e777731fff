"""Numbers and specs as a person reads them; every room that speaks to people uses these."""

import math
import re
from datetime import UTC, datetime

NONE = "–"  # where there is no number
OWN_LABELS = "the images have no labels: each is attacked as what the target itself takes it for"


def duration(seconds: float) -> str:
    """Seconds as a person says them: 42 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def plural(n: int, noun: str) -> str:
    """So many of something: 1 image, 1,200 images, 3 queries."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {re.sub('y$', 'ie', noun)}s"


def percent(share: float) -> str:
    """A share in per cent to one decimal, – where there is none."""
    return NONE if math.isnan(share) else f"{100 * share:.1f}%"


def number(value: float, form: str) -> str:
    """A number in a form such as ".1f", – where there is none."""
    return NONE if math.isnan(value) else format(value, form)


def queries(value: float) -> str:
    """A number of queries: whole, to one decimal below ten, ∞, or – where there is none."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞"
    return f"{value:.1f}" if value < 9.95 and value != int(value) else f"{math.floor(value + 0.5):,}"


def step(size: float) -> str:
    """A small number, as a fraction where it is one of 1: 1/256."""
    parts = round(1 / size)
    return f"1/{parts}" if parts > 1 and abs(size * parts - 1) < 1e-4 else f"{size:.4g}"


def epsilon(eps: float, digits: int = 6) -> str:
    """A ball's radius, as a fraction of 255 where it is one and no short decimal: 8/255, but 0.2."""
    levels = round(255 * eps)
    if abs(255 * eps - levels) < 1e-9 and float(f"{eps:.3g}") != eps:
        return f"{levels}/255"
    return f"{eps:.{digits}g}"


def p_value(p: float) -> str:
    """A p-value, to two digits."""
    return "<0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def rounded(value: float, digits: int) -> float:
    """The number to so many significant digits, which JSON says in fewer letters."""
    return float(f"{value:.{digits}g}")


def short(value: float | None, digits: int) -> float | None:
    """As `rounded`, a whole number as it is; None where there is none, or none that JSON has a word for."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else rounded(value, digits)


def day(seconds: float) -> str:
    """A day of the calendar, UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def minute(seconds: float) -> str:
    """A time to the minute, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def without_password(text: str) -> str:
    """A spec or a word of a command as it may be kept and shown: what may be a password in a URL is hidden."""
    return re.sub(r"//[^/@]*@", "//***@", text)
