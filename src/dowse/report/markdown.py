"""The report for a README or a wiki: one Markdown table a norm, with intervals and everything escaped."""

import re

from dowse.report import cells, numbers
from dowse.report.model import Report, Table


def escape(text: str) -> str:
    """Text as Markdown shows it, on one line."""
    safe = re.sub(r"([\\`*_{}\[\]#|~])", r"\\\1", re.sub(r"\s+", " ", text))
    return safe.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def to_markdown(report: Report) -> str:
    """A heading, then a table a norm."""
    said = numbers.captions(report.tables)
    tables = [_table(table, caption) for table, caption in zip(report.tables, said, strict=True)]
    parts = [f"# {escape(report.title)}\n", *tables]
    return "\n".join([*parts, f"{_LEGEND}\n"])


def _table(table: Table, caption: str) -> str:
    ranked = cells.how_ranked(table)
    heads = [f"{escape(group.name)}<br>{column.name}" for group in table.groups for column in cells.PAPER]
    lines = [
        f"## {escape(caption)}\n",
        *([f"{escape(ranked)}\n"] if ranked else []),
        f"| Method | {' | '.join(heads)} |",
        f"|---|{'---:|' * len(heads)}",
    ]
    for method, filled in cells.fill(table).items():
        written = [_cell(cell) for group in filled for cell in group]
        lines.append(f"| {escape(method)} | {' | '.join(written)} |")
    return "\n".join([*lines, ""])


def _cell(cell: cells.Cell) -> str:
    text = f"**{cell.text}**" if cell.best else cell.text
    small = ", ".join(filter(None, (cell.interval, cell.images)))
    return f"{text} ({small})" if small else text


_LEGEND = (
    "ASR: share of images fooled (Wilson 95 %). AVG. Q: mean queries over successes (bootstrap 95 %). Median: with "
    "failures counted as infinite (order statistics, 95 %). Best of each column in bold."
)
