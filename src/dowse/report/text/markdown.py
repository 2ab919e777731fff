"""The report for a README or a wiki: one Markdown table a norm, with intervals and everything escaped."""

import re
from collections.abc import Iterable, Sequence

from dowse.report.data.cells import MEASURES, Cell, fill, how_ranked
from dowse.report.data.model import Report, Table
from dowse.report.data.names import captions

LEGEND = (
    "ASR: share of images fooled (Wilson 95 %). AVG. Q: mean queries over successes (bootstrap 95 %). Median: with "
    "failures counted as infinite (order statistics, 95 %). Best of each column in bold."
)


def escape(text: str) -> str:
    """Text as Markdown shows it, on one line."""
    safe = re.sub(r"([\\`*_{}\[\]#|~])", r"\\\1", re.sub(r"\s+", " ", text))
    return safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool = False) -> list[str]:
    """The lines of a table of words that are Markdown already; all columns but the first may stand on the right."""
    rule = ["---", *["---:" if right else "---"] * (len(heads) - 1)]
    return [f"| {' | '.join(heads)} |", f"|{'|'.join(rule)}|", *(f"| {' | '.join(row)} |" for row in rows)]


def to_markdown(report: Report) -> str:
    """A heading, then a table a norm."""
    tables = [_table(table, said) for table, said in zip(report.tables, captions(report.tables), strict=True)]
    return "\n".join([f"# {escape(report.title)}\n", *tables, f"{LEGEND}\n"])


def _table(table: Table, caption: str) -> str:
    ranked = how_ranked(table)
    heads = [f"{escape(group.name)}<br>{measure.name}" for group in table.groups for measure in MEASURES]
    rows = [
        (escape(method), *(_cell(cell) for group in filled for cell in group))
        for method, filled in fill(table).items()
    ]  # fmt: skip
    above = [f"## {escape(caption)}\n", *([f"{escape(ranked)}\n"] if ranked else [])]
    return "\n".join([*above, *table_lines(["Method", *heads], rows, right=True), ""])


def _cell(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.best else cell.text
    small = ", ".join(filter(None, (cell.interval, cell.images)))
    return f"{text} ({small})" if small else text
