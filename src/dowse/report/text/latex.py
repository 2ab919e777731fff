"""The report for a paper: one booktabs table a norm, everything escaped."""

import re

from dowse.report.data.cells import MEASURES, Cell, fill, how_ranked
from dowse.report.data.model import Report, Table
from dowse.report.data.names import FORMULA, radius, subscripts
from dowse.wording import NONE

MATHS = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "τ": "tau", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta",
    "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega", "∞": "infty",
    "ℓ": "ell", "√": "surd", "·": "cdot", "×": "times", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx",
    "±": "pm", "→": "to", "←": "leftarrow", "∇": "nabla", "‖": "Vert", "∈": "in",
}  # fmt: skip
ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "[": "{[}", "*": "{*}", "–": "--", "—": "---", "−": "$-$", "’": "'", "“": "``", "”": "''", "…": r"\ldots{}",
    **{sign: f"$\\{word}$" for sign, word in MATHS.items()},
    **{sign: f"$_{i}$" for i, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{sign: f"$^{i}$" for i, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}  # fmt: skip


def escape(text: str) -> str:
    """Text as LaTeX shows it, whatever is in it; [ and * are wrapped, since after \\\\ they would be its options."""
    return "".join(ESCAPES.get(letter, letter) for letter in re.sub(r"\s+", " ", text))


def to_latex(report: Report) -> str:
    """All tables, none wider than the text; the preamble needs \\usepackage{booktabs,graphicx}."""
    return "% \\usepackage{booktabs,graphicx}\n" + "\n".join(_table(table, i) for i, table in enumerate(report.tables))


def _table(table: Table, number: int) -> str:
    groups, width = table.groups, len(MEASURES)
    heads = " & ".join(f"\\multicolumn{{{width}}}{{c}}{{{escape(group.name)}}}" for group in groups)
    rules = " ".join(f"\\cmidrule(lr){{{2 + width * i}-{1 + width * (i + 1)}}}" for i in range(len(groups)))
    names = " & ".join(escape(measure.name) for _ in groups for measure in MEASURES)
    lines = [
        "\\begin{table}",
        f"  \\caption{{{_caption(table)}}}",
        f"  \\label{{tab:dowse-{table.norm}-{number + 1}}}",
        "  \\smallskip\\centering\\small\\setlength{\\tabcolsep}{4pt}",
        "  \\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"  \\begin{{tabular}}{{l{'r' * width * len(groups)}}}",
        "    \\toprule",
        f"    & {heads} \\\\",
        f"    {rules}",
        f"    Method & {names} \\\\",
        "    \\midrule",
    ]
    for method, filled in fill(table).items():
        written = [_cell(cell) for group in filled for cell in group]
        small = [[_small(cell.interval), _small(cell.images)] for group in filled for cell in group]
        under = [" & ".join(words) for words in zip(*small, strict=True) if any(words)]
        rows = [f"{_name(method)} & {' & '.join(written)}", *(f"& {words}" for words in under)]
        lines += [f"    {row} \\\\" for row in rows[:-1]] + [f"    {rows[-1]} \\\\[2pt]"]
    return "\n".join([*lines, "    \\bottomrule", "  \\end{tabular}}", "\\end{table}", ""])


def _name(title: str) -> str:
    return "".join(f"\\textsubscript{{{escape(text)}}}" if low else escape(text) for text, low in subscripts(title))


def _cell(cell: Cell) -> str:
    text = _number(cell.text)
    return "--" if cell.text == NONE else f"\\textbf{{{text}}}" if cell.best else text


def _small(words: str) -> str:
    """What stands under a number: its interval, or of how many images it is."""
    return f"{{\\scriptsize {_number(words)}}}" if words else ""


def _number(text: str) -> str:
    return escape(text.replace(",", "\u2009")).replace("\u2009", "\\,")


def _caption(table: Table) -> str:
    norm = {"l2": "$\\ell_2$", "linf": "$\\ell_\\infty$"}.get(table.norm, escape(table.norm))
    words = radius(table)
    eps = "\\sqrt{0.001 D}" if words == FORMULA else words
    counts = sorted({entry.numbers.summary.n for group in table.groups for entry in group.entries})
    images = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return (
        f"{'Targeted attacks' if table.targeted else 'Attacks'} under the {norm} norm, $\\epsilon = {eps}$, at most "
        f"{table.budget} queries, {images} images a cell: attack success rate (ASR), mean queries over successes "
        "(AVG. Q), and median queries with failures counted as infinite; small: 95\\,\\% intervals."
        f"{' ' + escape(how_ranked(table)) if how_ranked(table) else ''}"
    )
