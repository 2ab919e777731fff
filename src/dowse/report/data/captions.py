"""What a table is about, in words: its ball, its budget, and its targets where tables would else be called the same."""

import math
from collections.abc import Sequence

from dowse.report.data.model import Table
from dowse.report.data.names import norm_sign

FORMULA = "√(0.001·D)"  # the paper's radius for ℓ₂, as dowse.maths.geometry has it


def ball(table: Table) -> str:
    """The ball of a table in words: its norm and its radius, with the paper's formula where that was taken."""
    words, known = radius(table), [group.eps for group in table.groups]
    sizes = sorted({f"{eps:.3g}" for eps in known if words == FORMULA and not math.isnan(eps)})
    return f"{norm_sign(table.norm)}, ε = {words}" + (f" = {', '.join(sizes)}" if sizes else "")


def radius(table: Table) -> str:
    """The radius of a table's ball: as it was asked for, else the paper's, for ℓ₂ as its formula."""
    if table.eps is None and table.norm == "l2":
        return FORMULA
    return f"{table.groups[0].eps if table.eps is None else table.eps:g}"


def captions(tables: Sequence[Table]) -> list[str]:
    """What each table is about; those that share a caption name their targets too."""
    plain = [_caption(table) for table in tables]
    return [
        said if plain.count(said) == 1 else f"{said}: {', '.join(group.name for group in table.groups)}"
        for said, table in zip(plain, tables, strict=True)
    ]


def short_captions(tables: Sequence[Table]) -> list[str]:
    """The shortest words that tell tables apart: the norm, where needed the radius and the budget."""
    norms, balls = [norm_sign(table.norm) for table in tables], [ball(table) for table in tables]
    whole = [_caption(table) for table in tables]
    return next(words for words in (norms, balls, whole) if len(set(words)) == len(set(whole)))


def _caption(table: Table) -> str:
    aim = "targeted, " if table.targeted else ""
    return f"{ball(table)}, {aim}at most {table.budget:,} queries an image"
