"""Writes docs/results/: the paper's tables as they came out here, beside its own numbers; its claims; the prior.

python experiments/results.py out/here
python experiments/results.py docs/results/rows/here.jsonl      # or a file that `dowse pack out/here` wrote

A page grows: a page, a cell or a line of the claims that the store has nothing of stays as it is (`pages.py`).
Packed rows have no traces, which the page of the prior stands on: where one is missing, that page stays too.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

import claims
import pages
from claims import Cells, Seeds, begun
from ratios import ratios

from dowse.core.summary import summarize
from dowse.experiment.file import load_experiment
from dowse.experiment.grid import plans_of
from dowse.experiment.spec import PlannedRun
from dowse.images.sources import open_images
from dowse.maths import theory
from dowse.report.data.names import short_target
from dowse.report.data.statistics import wilson
from dowse.report.text.markdown import table_lines
from dowse.store import Counted, Row, SessionInfo, Store
from dowse.wording import day, queries

FOLDER = Path(__file__).parent / "here"
RESULTS = Path(__file__).parents[1] / "docs" / "results"
NAMES = {  # of the defences, whose model is the same
    "jpeg:75+onnx:dowse:imagenet_mobilenetv2": "JPEG",
    "randomization+onnx:dowse:imagenet_mobilenetv2#size=248": "Randomization",
    "onnx:denoiser+dowse:imagenet_mobilenetv2": "Denoiser",
}
LEGEND = (
    "Cells are ASR [95 % interval] / AVG. Q of successes / median with failures infinite (images attacked), and the "
    "least and most of ASR / AVG. Q where there are several seeds; the paper's are ASR / AVG. Q."
)
COLUMNS = {"table1": ("table1_resnet50", "inception"), "table3": ("inception",)}  # which add columns to a table
PRIORS = ("table3", "table4", "table5", "table6")  # tables that the page of the prior stands on
NO_CELLS: Mapping[str, Mapping[str, str]] = {}
OTHERS = ("bandits", "inception")  # pages beside the paper's tables


def words_of(cell: Seeds) -> str:
    """A cell in a table: success and queries with the first seed, how many images they stand for, the seeds' spread."""
    seeds = begun(cell)
    if len(seeds) < 2:
        return _words_of(cell[0])
    made = [summarize(one.rows) for one in seeds]
    shares, asked = [one.asr for one in made], [one.mean_queries for one in made]
    spread = f"{min(shares):.1%}–{max(shares):.1%} / {queries(min(asked))}–{queries(max(asked))}"
    return f"{_words_of(cell[0])}; {len(seeds)} seeds {spread}"


def _words_of(cell: Counted) -> str:
    if not cell.attacked:
        return "–"
    s, done = summarize(cell.rows), len(cell.rows)
    low, high = wilson(s.successes, s.n)
    part = f", {done} of {done + cell.unfinished} images so far" if cell.unfinished else ""
    asked = f"{queries(s.mean_queries)} / {queries(s.median_queries)}"
    return f"{s.asr:.1%} [{low:.0%}, {high:.0%}] / {asked} ({s.n}{part})"


def cells_of(name: str, store: Store) -> Cells:
    """The cells of a table by column and by row, each with its seeds.

    A column is a target, and a target with one of its surrogates where there are several; a row that uses none is then
    in each of them.
    """
    experiment = load_experiment(FOLDER / f"{name}.toml")
    source = open_images(experiment.images.path, experiment.images.labels)
    found: dict[str, dict[str, list[Counted]]] = {}
    plans = plans_of(experiment, source)
    surrogates = list(dict.fromkeys(plan.spec.surrogate for plan in plans if plan.spec.surrogate))
    for plan in plans:
        spec = plan.spec
        columns = [spec.target]
        if len(surrogates) > 1:
            columns = [column_of(spec.target, one) for one in surrogates if spec.surrogate in ((), one)]
        cell = cell_of(plan, store, len(source))
        for column in columns:
            found.setdefault(column, {}).setdefault(plan.title, []).append(cell)
    return found


def column_of(target: str, surrogate: Sequence[str]) -> str:
    """What a target with one of several surrogates is called."""
    return f"{name_of(target)} by {', '.join(map(short_target, surrogate))}"


def cell_of(plan: PlannedRun, store: Store, total: int) -> Counted:
    """One cell: those of its rows that count with the plan's budget and number of images, of a set of `total`."""
    run = plan.spec.id
    return store.counted(run, plan.budget, min(plan.count or total, total - len(store.skipped(run))))


def heading(name: str, ours: Cells, sessions: Sequence[SessionInfo], notes: Sequence[str] = ()) -> Iterator[str]:
    """What a table is, how, when and on what it was run, and the notes about cells that are not of these runs."""
    first = (FOLDER / f"{name}.toml").read_text(encoding="utf-8").partition("\n")[0]
    yield "# " + first.removeprefix("# ").removesuffix(".")
    yield ""
    rows = rows_of(ours)
    days = sorted({day(row.finished) for row in rows})
    seeds = sorted({row.seed for row in rows})
    wrote = {row.session for row in rows}
    used = [one.versions.items() for one in sessions if one.id in wrote]
    versions = sorted({f"{name} {of}" for items in used for name, of in items if name != "platform"})
    files = name, *COLUMNS.get(name, ())
    yield from (f"    dowse run experiments/here/{one}.toml --out out/here" for one in files)
    yield ""
    run = f"Run {' to '.join(days[:1] + days[1:][-1:])}, seed {', '.join(map(str, seeds))}, with {', '.join(versions)}."
    yield run if rows else "Not run yet."
    yield budgets_of(ours)
    yield LEGEND
    yield ""
    yield from notes
    yield from [""] if notes else []


def budgets_of(ours: Cells) -> str:
    """A sentence about budgets, that of most columns first."""
    columns: dict[int, dict[str, None]] = {}
    for target, cells in ours.items():
        for row in rows_of({target: cells}):
            columns.setdefault(row.budget, {})[name_of(target)] = None
    (first, _), *others = sorted(columns.items(), key=lambda one: -len(one[1])) or [(0, {})]
    more = "".join(f"; {budget:,} for {', '.join(names)}" for budget, names in others)
    return f"Budget {first:,}{more}."


def table(ours: Cells, paper: dict[str, Any], kept: Mapping[str, Mapping[str, str]] = NO_CELLS) -> Iterator[str]:
    """Our table beside the paper's, in Markdown; where nothing was run, what `kept` has by row and column."""
    rows = []
    for title in titles_of(ours):
        cells = [
            words_of(cells[title]) if title in cells and begun(cells[title])
            else pages.dagger(old) if (old := kept.get(title, {}).get(name_of(target))) else pages.NOTHING
            for target, cells in ours.items()
        ]  # fmt: skip
        theirs = [f"{asr:.1f}% / {asked}" for asr, asked in paper["rows"].get(title, ())]
        rows.append((title, *cells, *(theirs or [pages.NOTHING] * len(paper["columns"]))))
    heads = (*map(name_of, ours), *(f"paper: {name.strip()}" for name in paper["columns"]))
    yield from table_lines(("method", *heads), rows)


def titles_of(ours: Cells) -> list[str]:
    """The rows of all columns: one that the first columns lack comes behind the row that it follows in its own."""
    found: list[str] = []
    for cells in ours.values():
        place = 0
        for title in cells:
            if title not in found:
                found.insert(place, title)
            place = found.index(title) + 1
    return found


def name_of(target: str) -> str:
    """What a column is called."""
    return NAMES.get(target, short_target(target))


def in_paper(name: str, paper: dict[str, Any]) -> dict[str, Any]:
    """The paper's numbers beside a page: its table's; for Inception-v3 the first column of Tables 1 and 3."""
    if name == "bandits":
        return {"columns": [], "rows": {}}
    if name == "inception":
        rows = paper["table1"]["rows"] | paper["table3"]["rows"]
        return {"columns": paper["table3"]["columns"][:1], "rows": {row: cells[:1] for row, cells in rows.items()}}
    found: dict[str, Any] = paper[name.partition("_")[0]]
    return found


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
    for name in PRIORS:
        for target, cells in tables.get(name, {}).items():
            yield from prior(
                int(name.removeprefix("table")),
                name_of(target),
                cells["P-RGF (λ*)"][0],
                cells["Averaging (μ*)"][0],
                store,
            )


def untraced(tables: dict[str, Cells], store: Store) -> int:
    """How many of the images that the page of the prior stands on have no trace."""
    cells = (cells for name, of in tables.items() if name in PRIORS for cells in of.values())
    both = (cell[row][0] for cell in cells for row in ("P-RGF (λ*)", "Averaging (μ*)") if row in cell)
    return sum(not store.trace(row.task) for one in both for row in one.attacked)


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
    """Write all tables, the claims and what the prior was worth, from the store in a folder, or a packed one."""
    paper = json.loads((RESULTS / "paper.json").read_text(encoding="utf-8"))
    with Store(folder) as store:
        sessions = store.sessions()
        names = [file.stem for file in sorted(FOLDER.glob("table*.toml"))]
        tables = {name: cells_of(name, store) for name in (*names, *OTHERS)}
        gone = {name for name, ours in tables.items() if not rows_of(ours)}
        if asked := gone & {*PRIORS}:
            stays("prior", f"nothing of {', '.join(sorted(asked))} is in the store")
        elif bare := untraced(tables, store):
            stays("prior", f"{bare} images have no trace, as rows that were packed")
        else:
            write("prior", priors(tables, store))
    for name, others in COLUMNS.items():
        more = {target: cells for one in others for target, cells in tables[one].items()}
        tables[name] = {**tables[name], **more}
    del tables["table1_resnet50"]  # whose only page is Table 1
    for name, ours in tables.items():
        if not any(begun(cell) for cells in ours.values() for cell in cells.values()):
            stays(name, "nothing of it is in the store")
            continue
        old = pages.lines_of(RESULTS / f"{name}.md")
        lines = *heading(name, ours, sessions, pages.notes(old)), *table(ours, in_paper(name, paper), pages.cells(old))
        write(name, (*lines, *ratios(ours)) if name == "inception" else lines)
    called = {target: name_of(target) for cells in tables.values() for target in cells}
    said = claims.lines_of(tables, called)
    if not any(said):
        stays("claims", "nothing of them is in the store")
        return
    old = pages.lines_of(RESULTS / "claims.md")
    write("claims", claims.page(*claims.grown(*said, pages.rows(old, "claim", "")), pages.notes(old)))


def rows_of(ours: Cells) -> list[Row]:
    """All rows of a table."""
    return [row for cells in ours.values() for cell in cells.values() for one in cell for row in one.rows]


def stays(name: str, why: str) -> None:
    """Say that a page is not written, so that it stays as it is."""
    sys.stderr.write(f"{name}.md stays as it is: {why}\n")


def write(name: str, lines: Iterable[str]) -> None:
    """Write a page."""
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
