"""The report for a paper: one booktabs table a norm, everything escaped."""

import re

from dowse.report import cells
from dowse.report.model import Report, Table
from dowse.report.names import subscripts
from dowse.report.numbers import NONE

ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "λ": r"$\lambda$", "μ": r"$\mu$", "α": r"$\alpha$", "σ": r"$\sigma$", "ε": r"$\epsilon$", "∞": r"$\infty$",
    "ℓ": r"$\ell$", "√": r"$\surd$", "₂": r"$_2$", "·": r"$\cdot$", "×": r"$\times$", "–": "--", "≤": r"$\leq$",
}  # fmt: skip


def escape(text: str) -> str:
    """Text as LaTeX shows it, whatever is in it."""
    return "".join(ESCAPES.get(letter, letter) for letter in re.sub(r"\s+", " ", text))


def to_latex(report: Report) -> str:
    """All tables; the preamble needs \\usepackage{booktabs}."""
    return "% \\usepackage{booktabs}\n" + "\n".join(_table(table, i) for i, table in enumerate(report.tables))


def _table(table: Table, number: int) -> str:
    groups, width = table.groups, len(cells.PAPER)
    heads = " & ".join(f"\\multicolumn{{{width}}}{{c}}{{{escape(group.name)}}}" for group in groups)
    rules = " ".join(f"\\cmidrule(lr){{{2 + width * i}-{1 + width * (i + 1)}}}" for i in range(len(groups)))
    names = " & ".join(escape(column.name) for _ in groups for column in cells.PAPER)
    lines = [
        "\\begin{table}",
        f"  \\caption{{{_caption(table)}}}",
        f"  \\label{{tab:dowse-{table.norm}-{number + 1}}}",
        "  \\centering\\small",
        f"  \\begin{{tabular}}{{l{'r' * width * len(groups)}}}",
        "    \\toprule",
        f"    & {heads} \\\\",
        f"    {rules}",
        f"    Method & {names} \\\\",
        "    \\midrule",
    ]
    for method, filled in cells.fill(table).items():
        written = [_cell(cell) for group in filled for cell in group]
        lines.append(f"    {_name(method)} & {' & '.join(written)} \\\\")
    return "\n".join([*lines, "    \\bottomrule", "  \\end{tabular}", "\\end{table}", ""])


def _name(title: str) -> str:
    return "".join(f"\\textsubscript{{{escape(text)}}}" if low else escape(text) for text, low in subscripts(title))


def _cell(cell: cells.Cell) -> str:
    text = escape(cell.text.replace(",", "\u2009")).replace("\u2009", "\\,")
    return "--" if cell.text == NONE else f"\\textbf{{{text}}}" if cell.best else text


def _caption(table: Table) -> str:
    norm = {"l2": "$\\ell_2$", "linf": "$\\ell_\\infty$"}.get(table.norm, escape(table.norm))
    eps = {"l2": "\\sqrt{0.001 D}", "linf": "0.05"}[table.norm] if table.eps is None else f"{table.eps:g}"
    counts = sorted({entry.numbers.summary.n for group in table.groups for entry in group.entries})
    images = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{'Targeted attacks' if table.targeted else 'Attacks'} under the {norm} norm, $\\epsilon = {eps}$, at most "
        f"{table.budget} queries, {images} images a cell: attack success rate (ASR), mean queries over successes "
        "(AVG. Q), and median queries with failures counted as infinite."
    )
