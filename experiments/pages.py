"""What a page of docs/results holds already, so that a page grows: what a store has nothing of stays as it is.

`experiments/results.py` writes those pages. Cells of an earlier run whose rows are gone bear a dagger, and the points
that begin with one say which run that was.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

DAGGER = "†"
NOTHING = "–"  # a cell that was not run


def lines_of(page: Path) -> list[str]:
    """The lines of a page, none where it is not there yet."""
    return page.read_text(encoding="utf-8").splitlines() if page.is_file() else []


def notes(page: Sequence[str]) -> list[str]:
    """The points of a list that say where cells with a dagger come from."""
    return [line for line in page if line.startswith(f"- {DAGGER}")]


def rows(page: Sequence[str], first: str, last: str | None = None) -> Iterator[dict[str, str]]:
    """The rows, by head, of the first table whose first head is `first`, and whose last is `last` where that is said.

    >>> list(rows(["text", "| method | Net |", "|---|---|", "| RGF | 7 |", "", "| RGF | 8 |"], "method"))
    [{'method': 'RGF', 'Net': '7'}]
    """
    heads: list[str] | None = None
    for line in page:
        if not line.startswith("|"):
            if heads is not None:
                return
            continue
        said = [cell.strip() for cell in line.strip("|").split(" | ")]
        if heads is None and said[0] == first and last in (None, said[-1]):
            heads = said
        elif heads is not None and not line.startswith("|---"):
            yield dict(zip(heads, said, strict=True))


def cells(page: Sequence[str], first: str = "method") -> dict[str, dict[str, str]]:
    """The cells of the first table with that head that say anything, by row and column."""
    return {row.pop(first): {head: cell for head, cell in row.items() if cell != NOTHING} for row in rows(page, first)}


def dagger(cell: str) -> str:
    """A cell that stays though its rows are gone.

    >>> dagger("97.7% / 179"), dagger("97.7% / 179 †")
    ('97.7% / 179 †', '97.7% / 179 †')
    """
    return cell if cell.endswith(DAGGER) else f"{cell} {DAGGER}"
