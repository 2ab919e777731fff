"""The paper's ratios of queries on Inception-v3, its own target, beside what came out here.

`experiments/results.py` writes the end of docs/results/inception.md with it.
"""

from collections.abc import Iterator

from claims import Cells, Seeds, common

from dowse.core.summary import summarize
from dowse.report.text.markdown import table_lines
from dowse.wording import queries

RATIOS = [  # (what is compared, the first row, the second, AVG. Q of Tables 1 and 3 on Inception-v3)
    ("P-RGF / RGF", "P-RGF (λ*)", "RGF", 745 / 1309),
    ("averaging / RGF", "Averaging (μ*)", "RGF", 735 / 1309),
    ("P-RGF_D / RGF_D", "P-RGF_D (λ*)", "RGF_D", 649 / 910),
    ("averaging_D / RGF_D", "Averaging_D (μ*)", "RGF_D", 644 / 910),
]


def ratios(ours: Cells) -> Iterator[str]:
    """A table of ratios, a line for each that has images, on those that both rows attacked."""
    yield ""
    yield "Ratios of queries on the images that both rows attacked: of means with failures at the budget, and of AVG."
    yield "Q, the mean of successes, as the paper has it."
    yield ""
    rows = [
        line
        for column, cells in ours.items()
        for words, better, other, theirs in RATIOS
        if {better, other} <= cells.keys()
        and (line := _ratio(column, words, cells[better], cells[other], theirs)) is not None
    ]
    heads = ("", "column", "images", "means, failures at the budget", "ratio", "AVG. Q", "ratio", "the paper's")
    yield from table_lines(heads, rows)


def _ratio(column: str, words: str, better: Seeds, other: Seeds, theirs: float) -> tuple[str, ...] | None:
    both = common(better[:1], other[:1])
    if not both:
        return None
    first, second = (summarize([cell[0].by_image()[image] for image in both]) for cell in (better, other))
    whole = first.mean_queries_budget / second.mean_queries_budget
    of_successes = f"{first.mean_queries / second.mean_queries:.2f}" if first.successes and second.successes else "–"
    return (
        words, column, str(len(both)), f"{first.mean_queries_budget:.0f} / {second.mean_queries_budget:.0f}",
        f"{whole:.2f}", f"{queries(first.mean_queries)} / {queries(second.mean_queries)}", of_successes,
        f"{theirs:.2f}",
    )  # fmt: skip
