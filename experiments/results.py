"""Writes docs/results/: the paper's tables as they came out here, beside its own numbers; its claims; the prior.

python experiments/results.py out/here
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, quantiles

from dowse.core.result import summarize
from dowse.experiment.file import load_experiment
from dowse.experiment.grid import plans_of
from dowse.experiment.spec import PlannedRun
from dowse.images.sources import open_images
from dowse.maths import theory
from dowse.report.data.names import short_target
from dowse.report.data.statistics import compare_rows, wilson
from dowse.report.text.markdown import table_lines
from dowse.store import Counted, Row, SessionInfo, Store
from dowse.wording import day, queries

Cells = dict[str, dict[str, Counted]]  # by target, in that by row
Rows = dict[str, Row]  # by image

FOLDER = Path(__file__).parent / "here"
RESULTS = Path(__file__).parents[1] / "docs" / "results"
NAMES = {  # of the defences, whose model is the same
    "jpeg:75+onnx:dowse:imagenet_mobilenetv2": "JPEG",
    "randomization+onnx:dowse:imagenet_mobilenetv2#size=248": "Randomization",
    "onnx:denoiser+dowse:imagenet_mobilenetv2": "Denoiser",
}
LEGEND = (
    "Cells are ASR [95 % interval] / AVG. Q of successes / median with failures infinite (images attacked); "
    "the paper's are ASR / AVG. Q."
)
LEVEL = 0.05
COLUMNS = {"table1": ("table1_resnet50",)}  # experiments that add columns to another's table
CLAIMS = [  # (what the paper says, tables where it says so, the better row, the other row)
    ("λ* beats λ = 0.5", (1, 5), "P-RGF (λ*)", "P-RGF (λ = 0.5)"),
    ("λ* beats λ = 0.05", (1, 5), "P-RGF (λ*)", "P-RGF (λ = 0.05)"),
    ("λ* beats λ = 0.5, data prior", (1, 5), "P-RGF_D (λ*)", "P-RGF_D (λ = 0.5)"),
    ("λ* beats λ = 0.05, data prior", (1, 5), "P-RGF_D (λ*)", "P-RGF_D (λ = 0.05)"),
    ("P-RGF beats RGF", (1, 2, 5, 6), "P-RGF (λ*)", "RGF"),
    ("P-RGF_D beats RGF_D", (1, 2, 5, 6), "P-RGF_D (λ*)", "RGF_D"),
    ("P-RGF_D beats Bandits_TD", (1, 5), "P-RGF_D (λ*)", "Bandits_TD"),
    ("the data prior helps RGF", (1, 2, 5, 6), "RGF_D", "RGF"),
    ("the data prior helps P-RGF", (1, 2, 5, 6), "P-RGF_D (λ*)", "P-RGF (λ*)"),
    ("the data prior helps averaging", (3, 4, 5, 6), "Averaging_D (μ*)", "Averaging (μ*)"),
    ("averaging is ahead of P-RGF", (3, 4, 5, 6), "Averaging (μ*)", "P-RGF (λ*)"),
    ("averaging_D is ahead of P-RGF_D", (3, 4, 5, 6), "Averaging_D (μ*)", "P-RGF_D (λ*)"),
]  # fmt: skip


def words_of(cell: Counted) -> str:
    """A cell in a table: success, queries, and how many images they stand for."""
    if not cell.attacked:
        return "–"
    s, done = summarize(cell.rows), len(cell.rows)
    low, high = wilson(s.successes, s.n)
    part = f", {done} of {done + cell.unfinished} images so far" if cell.unfinished else ""
    asked = f"{queries(s.mean_queries)} / {queries(s.median_queries)}"
    return f"{s.asr:.1%} [{low:.0%}, {high:.0%}] / {asked} ({s.n}{part})"


def cells_of(name: str, store: Store) -> Cells:
    """The cells of a table by target and by row."""
    experiment = load_experiment(FOLDER / f"{name}.toml")
    source = open_images(experiment.images.path, experiment.images.labels)
    found: Cells = {}
    for plan in plans_of(experiment, source):
        found.setdefault(plan.spec.target, {})[plan.title] = cell_of(plan, store, len(source))
    return found


def cell_of(plan: PlannedRun, store: Store, total: int) -> Counted:
    """One cell: those of its rows that count with the plan's budget and number of images, of a set of `total`."""
    run = plan.spec.id
    return store.counted(run, plan.budget, min(plan.count or total, total - len(store.skipped(run))))


def heading(name: str, ours: Cells, sessions: Sequence[SessionInfo]) -> Iterator[str]:
    """What a table is, and how, when and on what it was run."""
    first = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").partition("\n")[0]
    yield "# " + first.removeprefix("# ").removesuffix(".")
    yield ""
    rows = [row for cells in ours.values() for cell in cells.values() for row in cell.rows]
    days = sorted({day(row.finished) for row in rows})
    seeds = sorted({row.seed for row in rows})
    wrote = {row.session for row in rows}
    used = [one.versions.items() for one in sessions if one.id in wrote]
    versions = sorted({f"{name} {of}" for items in used for name, of in items if name != "platform"})
    yield from (f"    dowse run experiments/here/{one}.toml --out out/here" for one in (name, *COLUMNS.get(name, ())))
    yield ""
    run = f"Run {' to '.join(days[:1] + days[1:][-1:])}, seed {', '.join(map(str, seeds))}, with {', '.join(versions)}."
    yield run if rows else "Not run yet."
    yield LEGEND
    yield ""


def table(ours: Cells, paper: dict[str, dict[str, Sequence[tuple[float, int]]]]) -> Iterator[str]:
    """Our table beside the paper's, in Markdown."""
    rows = []
    for title in next(iter(ours.values())):
        cells = [words_of(cells[title]) if title in cells else "–" for cells in ours.values()]
        theirs = [f"{asr:.1f}% / {asked}" for asr, asked in paper["rows"].get(title, ())]
        rows.append((title, *cells, *(theirs or ["–"] * len(paper["columns"]))))
    heads = (*map(name_of, ours), *(f"paper: {name.strip()}" for name in paper["columns"]))
    yield from table_lines(("method", *heads), rows)


def name_of(target: str) -> str:
    """What a column is called."""
    return NAMES.get(target, short_target(target))


def claims(tables: dict[str, Cells]) -> Iterator[str]:
    """What the paper claims against what the images say that two rows have in common."""
    yield "# The paper's claims on the images that two rows have in common"
    yield ""
    yield "Queries: means, failures at the budget; then the images on which the first row needs fewer, more, the same."
    yield f"A claim holds, or its opposite does, where a sign test has p < {LEVEL}; no correction for their number."
    yield "The last line of a claim takes all targets of a table together, each of their images by itself."
    yield ""
    yield "| claim | table | target | images | queries | fewer / more / equal | p | |"
    yield "|---|---|---|---|---|---|---|---|"
    for words, where, better, other in CLAIMS:
        for number in where:
            sides = {
                name_of(target): (cells[better].by_image(), cells[other].by_image())
                for target, cells in tables.get(f"table{number}", {}).items()
                if {better, other} <= cells.keys()
            }
            for name, side in (*sides.items(), ("all", together(sides))):
                yield from claim(words, number, name, *side)


def together(sides: dict[str, tuple[Rows, Rows]]) -> tuple[Rows, Rows]:
    """The rows of all targets, each image of each target by itself."""
    better, other = (
        {f"{name} {image}": row for name, side in sides.items() for image, row in side[i].items()} for i in (0, 1)
    )
    return better, other


def claim(words: str, number: int, target: str, *sides: Rows) -> Iterator[str]:
    """One claim in one table: of two rows, by image, if they have images in common."""
    both = sides[0].keys() & sides[1].keys()
    if not both:
        return
    paired = compare_rows(*sides)
    summaries = [summarize([side[image] for image in both]) for side in sides]
    means = " against ".join(f"{summary.mean_queries_budget:.0f}" for summary in summaries)
    p = paired.sign_p
    verdict = "open" if p >= LEVEL else "holds" if paired.wins > paired.losses else "the opposite"
    counts = f"{paired.wins} / {paired.losses} / {paired.ties}"
    yield f"| {words} | {number} | {target} | {paired.n} | {means} | {counts} | {p:.2g} | {verdict} |"


def priors(tables: dict[str, Cells], store: Store) -> Iterator[str]:
    """How well the surrogate's gradient fits each target, as P-RGF (λ*) and averaging (μ*) saw it."""
    yield "# How good the prior is"
    yield ""
    yield "α̂: the cosine of surrogate's and target's gradient as P-RGF (λ*) estimates it in an image's first iteration,"
    yield "where ‖∇f‖ is fresh. At 224×224 a random direction has about 1/√D = 0.0026, and RGF's estimate from q = 50"
    yield "of them √(q/D) = 0.018. Then the mean share of an image's iterations that take the prior as it is, for two"
    yield "queries."
    yield ""
    yield "| table | target | images | α̂, median (quartiles) | λ* = 1 | μ* ≥ c |"
    yield "|---|---|---|---|---|---|"
    for number in (3, 4, 5, 6):
        for target, cells in tables.get(f"table{number}", {}).items():
            yield from prior(number, name_of(target), cells["P-RGF (λ*)"], cells["Averaging (μ*)"], store)


def prior(number: int, target: str, prgf: Counted, averaging: Counted, store: Store) -> Iterator[str]:
    """The prior of one target, if both methods attacked it."""
    noted, meaned = noted_by(prgf, "alpha", store), noted_by(averaging, "mu", store)
    if not noted or not meaned:
        return
    low, median, high = quantiles([cosines[0] for cosines in noted], n=4, method="inclusive")
    sure = [fmean(λ == 1 for λ in image) for image in noted_by(prgf, "lam", store)]
    weighty = [fmean(μ >= theory.THRESHOLD_C for μ in image) for image in meaned]
    cosine = f"{median:.4f} ({low:.4f}–{high:.4f})"
    yield f"| {number} | {target} | {len(noted)} | {cosine} | {fmean(sure):.0%} | {fmean(weighty):.0%} |"


def noted_by(cell: Counted, name: str, store: Store) -> list[list[float]]:
    """The values that an attack noted under a name, a list an image; images without any are left out."""
    traces = (store.trace(row.task).get(name, []) for row in cell.attacked)
    return [values for trace in traces if (values := [value for value in trace if value is not None])]


def main(folder: str) -> None:
    """Write all tables, the claims and what the prior was worth, from the store in a folder."""
    paper = json.loads((RESULTS / "paper.json").read_text(encoding="utf-8"))
    with Store(folder) as store:
        sessions = store.sessions()
        tables = {file.stem: cells_of(file.stem, store) for file in sorted(FOLDER.glob("table*.toml"))}
        write("prior", priors(tables, store))
    for name, others in COLUMNS.items():
        tables[name] = tables[name] | {target: cells for one in others for target, cells in tables.pop(one).items()}
    for name, ours in tables.items():
        lines = (*heading(name, ours, sessions), *table(ours, paper[name.partition("_")[0]]))
        write(name, lines)
    write("claims", claims(tables))


def write(name: str, lines: Iterable[str]) -> None:
    """Write a page."""
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
