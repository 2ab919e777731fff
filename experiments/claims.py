"""The paper's claims on the images that two rows have in common: a verdict per target, and where targets disagree.

`experiments/results.py` writes docs/results/claims.md with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from dowse.core.summary import summarize
from dowse.report.data.statistics import compare, cost, sign_test
from dowse.report.text.markdown import table_lines
from dowse.store import Counted, Row

Seeds = Sequence[Counted]  # one cell of a table: the same run with one seed after another
Cells = Mapping[str, Mapping[str, Seeds]]  # by target, in that by row

LEVEL = 0.05
CLAIMS = [  # (what the paper says, pages where it says so, the better row, the other row)
    ("λ* beats λ = 0.5", ("table1", "table5"), "P-RGF (λ*)", "P-RGF (λ = 0.5)"),
    ("λ* beats λ = 0.05", ("table1", "table5"), "P-RGF (λ*)", "P-RGF (λ = 0.05)"),
    ("λ* beats λ = 0.5, data prior", ("table1", "table5"), "P-RGF_D (λ*)", "P-RGF_D (λ = 0.5)"),
    ("λ* beats λ = 0.05, data prior", ("table1", "table5"), "P-RGF_D (λ*)", "P-RGF_D (λ = 0.05)"),
    ("P-RGF beats RGF", ("table1", "table2", "table5", "table6"), "P-RGF (λ*)", "RGF"),
    ("P-RGF_D beats RGF_D", ("table1", "table2", "table5", "table6"), "P-RGF_D (λ*)", "RGF_D"),
    ("P-RGF_D beats Bandits_TD", ("bandits", "inception", "table5"), "P-RGF_D (λ*)", "Bandits_TD"),
    ("P-RGF_D beats Bandits_TD looked at every fifth step", ("bandits",), "P-RGF_D (λ*)",
     "Bandits_TD, looked at every fifth step"),
    ("P-RGF_D beats Bandits_TD with the paper's step", ("bandits", "table5"), "P-RGF_D (λ*)",
     "Bandits_TD, the paper's step"),
    ("the data prior helps RGF", ("table1", "table2", "table5", "table6"), "RGF_D", "RGF"),
    ("the data prior helps P-RGF", ("table1", "table2", "table5", "table6"), "P-RGF_D (λ*)", "P-RGF (λ*)"),
    ("the data prior helps averaging", ("table3", "table4", "table5", "table6"), "Averaging_D (μ*)", "Averaging (μ*)"),
    ("averaging is ahead of P-RGF", ("table3", "table4", "table5", "table6"), "Averaging (μ*)", "P-RGF (λ*)"),
    ("averaging_D is ahead of P-RGF_D", ("table3", "table4", "table5", "table6"), "Averaging_D (μ*)", "P-RGF_D (λ*)"),
]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A claim on one target of one page.

    Attributes:
        claim: What is claimed of two rows.
        page: Where the rows are.
        target: On what.
        images: Images that both rows attacked.
        means: Their mean queries on these, failures at the budget, the first row's and the second's.
        fewer: Images for which the first row needs fewer.
        more: Images for which it needs more.
        spread: With several seeds, the means of each, the first row's and the second's.
    """

    claim: str
    page: str
    target: str
    images: int
    means: tuple[float, float]
    fewer: int
    more: int
    spread: tuple[Sequence[float], Sequence[float]] = ((), ())

    @property
    def p(self) -> float:
        """Two-sided p of the sign test, no correction."""
        return sign_test(self.fewer, self.more)


@dataclass(frozen=True)
class Together:
    """A claim on all targets of one page at once: photographs, and the p of whole ones turned."""

    claim: str
    page: str
    images: int
    p: float


def lines_of(tables: Mapping[str, Cells], names: Mapping[str, str]) -> tuple[list[Line], list[Together]]:
    """Every claim on every target that has both rows, and on all targets of a page; `names` are those of columns."""
    lines: list[Line] = []
    pooled: list[Together] = []
    for words, pages, better, other in CLAIMS:
        for page in pages:
            differences: dict[str, dict[str, float]] = {}
            compared: set[tuple[int, ...]] = set()
            for target, cells in tables.get(page, {}).items():
                rows = [begun(cells[row]) for row in (better, other) if row in cells]
                cells_themselves = tuple(id(one) for row in rows for one in row)
                if len(rows) == 2 and cells_themselves not in compared and (both := common(*rows)):
                    compared.add(cells_themselves)  # columns that differ by a surrogate share the rows that use none
                    first, second = (costs(row, both) for row in rows)
                    paired, name = compare(first, second), names.get(target, target)
                    means = [[_mean(one, both) for one in row] for row in rows]
                    spread = (means[0], means[1]) if max(map(len, means)) > 1 else ((), ())
                    lines.append(
                        Line(words, page, name, paired.n, (fmean(means[0]), fmean(means[1])), paired.wins,
                             paired.losses, spread)
                    )  # fmt: skip
                    differences[name] = {image: first[image] - second[image] for image in both}
            if len(differences) > 1:
                photographs = {image for by_image in differences.values() for image in by_image}
                pooled.append(Together(words, page, len(photographs), whole_image_p(list(differences.values()))))
    return lines, pooled


def grown(
    lines: Sequence[Line], pooled: Sequence[Together], written: Iterable[Mapping[str, str]]
) -> tuple[list[Line], list[Together]]:
    """Lines, and those that a page has written about other claims, pages and targets, in the order of CLAIMS.

    Their numbers are all that is left of rows that are gone; so where there is one, targets are not taken together.
    """
    new = {(line.claim, line.page, line.target): line for line in lines}
    old = {(line.claim, line.page, line.target): line for line in map(_read, written)}
    known, of_counts = {**old, **new}, {at[:2] for at in old.keys() - new.keys()}
    order = [(claim, page) for claim, pages, *_ in CLAIMS for page in pages]
    targets = list(dict.fromkeys(target for *_, target in known))
    found = [known[*at, target] for at in order for target in targets if (*at, target) in known]
    return found, [one for one in pooled if (one.claim, one.page) not in of_counts]


def _read(row: Mapping[str, str]) -> Line:
    """A line from the numbers that `_cells` wrote."""
    fewer, more, _ = (int(part) for part in row["fewer / more / equal"].split(" / "))
    (mean, seeds), (other, its_seeds) = map(_mean_and_seeds, row["queries"].split(" against "))
    page = f"table{row['table']}" if row["table"].isdecimal() else row["table"]
    images = int(row["images"])
    return Line(row["claim"], page, row["target"], images, (mean, other), fewer, more, (seeds, its_seeds))


def _mean_and_seeds(words: str) -> tuple[float, list[float]]:
    """From "210 (200, 220)" or "210": the mean, and those of single seeds."""
    mean, _, seeds = words.rstrip(")").partition(" (")
    return float(mean), [float(seed) for seed in seeds.split(", ")] if seeds else []


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of one family after Holm's correction (1979), in their order.

    The smallest of m is multiplied by m, the next by m − 1, and so on; none becomes smaller than one before it, or
    larger than 1. Calling those below a level significant errs anywhere in the family with at most that chance.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = least
    return adjusted


TURNS = 20_000


def whole_image_p(differences: Sequence[Mapping[str, float]], seed: int = 0) -> float:
    """Two-sided p of several targets together, from what two runs cost on each image of each: a sign-flip test.

    One photograph attacked on three targets is not three images. So where chance turns a photograph's sign, it turns
    all its copies; and each target has the weight one, however many images it has. The statistic is the sum over
    targets of (losses − wins)/images, its distribution that of TURNS random turns.

    Args:
        differences: For each target, first − second by image; the same photograph has the same key on each.
        seed: Of the turns, so that a page says the same each time it is written.
    """
    share: dict[str, float] = {}
    for target in differences:
        for image, one in target.items():
            share[image] = share.get(image, 0.0) + float(np.sign(one)) / len(target)
    shares = np.array(list(share.values()))
    if not shares.any():
        return 1.0
    turns = np.random.default_rng(seed).integers(2, size=(TURNS, len(shares)), dtype=np.int8) * 2.0 - 1
    reached = np.abs(turns @ shares) >= abs(shares.sum()) - 1e-12
    return float((1 + reached.sum()) / (1 + TURNS))


def begun(cell: Seeds) -> Seeds:
    """The seeds of a cell that have attacked an image."""
    return [one for one in cell if one.attacked]


def common(*cells: Seeds) -> list[str]:
    """The images that every seed of every cell attacked; none where a cell has no seed."""
    found = [one.by_image() for cell in cells for one in cell]
    return [image for image in found[0] if all(image in other for other in found)] if all(cells) else []


def costs(cell: Seeds, images: Iterable[str]) -> dict[str, float]:
    """What each image cost, the mean over seeds; a failure one query more than the budget."""
    found = [one.by_image() for one in cell]
    return {image: fmean(cost(rows[image]) for rows in found) for image in images}


def _mean(cell: Counted, images: Iterable[str]) -> float:
    rows: Mapping[str, Row] = cell.by_image()
    return float(summarize([rows[image] for image in images]).mean_queries_budget)


def judged(lines: Sequence[Line]) -> list[tuple[Line, float, str]]:
    """Each line with its p after Holm, among the lines of its claim, and its verdict."""
    found = []
    for claim in dict.fromkeys(line.claim for line in lines):
        family = [line for line in lines if line.claim == claim]
        for line, p in zip(family, holm([line.p for line in family]), strict=True):
            verdict = "open" if p >= LEVEL else "holds" if line.fewer > line.more else "the opposite"
            found.append((line, p, verdict))
    return found


def verdicts(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    """For each claim and page: in a word what its targets say together, and each of them by itself."""
    said = judged(lines)
    for claim, page in dict.fromkeys((line.claim, line.page) for line, *_ in said):
        here = [(line, verdict) for line, _, verdict in said if (line.claim, line.page) == (claim, page)]
        found = {verdict for _, verdict in here}
        word = "**targets disagree**" if {"holds", "the opposite"} <= found else "; ".join(
            f"{verdict} on {'all ' if len(found) == 1 < len(here) else ''}{sum(one == verdict for _, one in here)}"
            for verdict in ("holds", "open", "the opposite") if verdict in found
        )  # fmt: skip
        yield claim, word, ", ".join(f"{line.target} {verdict} ({line.fewer} : {line.more})" for line, verdict in here)


def page(lines: Sequence[Line], pooled: Sequence[Together] = (), notes: Sequence[str] = ()) -> Iterator[str]:
    """The page, in Markdown: verdicts first, then every line with its numbers, then targets taken together."""
    yield "# The paper's claims on the images that two rows have in common"
    yield ""
    yield f"A claim holds on a target, or its opposite does, where a sign test over images has p < {LEVEL} after Holm's"
    yield "correction among the lines of that claim. Behind each target: images on which the first row needs fewer, and"
    yield "more. With several seeds an image counts by its mean over them."
    yield ""
    yield from notes
    yield from [""] if notes else []
    where = list(dict.fromkeys((line.claim, line.page) for line in lines))
    rows = [
        (claim, number_of(name), word, each)
        for (claim, word, each), (_, name) in zip(verdicts(lines), where, strict=True)
    ]
    yield from table_lines(("claim", "table", "verdict", "target by target"), rows)
    yield ""
    yield "## Every line"
    yield ""
    yield "Queries are means, failures at the budget, and in brackets the means of single seeds."
    yield ""
    heads = ("claim", "table", "target", "images", "queries", "fewer / more / equal", "p", "p, Holm", "")
    yield from table_lines(heads, [_cells(*one) for one in judged(lines)])
    if pooled:
        yield ""
        yield "## All targets of a table together"
        yield ""
        yield "Each target weighs the same, however many images it has, and a photograph is turned with all its copies:"
        yield "p is the share of 20,000 random turns of whole photographs that speak as clearly as what was seen."
        yield ""
        together = [(one.claim, number_of(one.page), str(one.images), f"{one.p:.2g}") for one in pooled]
        yield from table_lines(("claim", "table", "photographs", "p"), together)


def _cells(line: Line, p: float, verdict: str) -> tuple[str, ...]:
    means = [
        f"{mean:.0f}" + (f" ({', '.join(f'{one:.0f}' for one in seeds)})" if seeds else "")
        for mean, seeds in zip(line.means, line.spread, strict=True)
    ]
    equal = line.images - line.fewer - line.more
    return (
        line.claim, number_of(line.page), line.target, str(line.images), " against ".join(means),
        f"{line.fewer} / {line.more} / {equal}", f"{line.p:.2g}", f"{p:.2g}", verdict,
    )  # fmt: skip


def number_of(name: str) -> str:
    """A page as a table says it: the number of one of the paper's tables, else its name."""
    return name.removeprefix("table")
