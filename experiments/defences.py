"""Writes docs/results/defences.md: attacks against defences, with the clean accuracy that each defence leaves.

python experiments/defences.py measure out/defences [images]     # clean accuracy, into out/defences/clean.json
python experiments/defences.py out/defences ["A note"]           # the page, from the store and that file

For the store's folder a file that `dowse pack out/defences` wrote will do, docs/results/rows/defences.jsonl; the clean
accuracy is then beside it, in docs/results/rows/defences.clean.json.

Every cell that a file of experiments/defences asks for is on the page, with how many images it stands on, or is said
not to have been run.
"""

import itertools
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dowse.core.summary import Summary, summarize
from dowse.experiment.file import load_experiment
from dowse.experiment.grid import plans_of
from dowse.experiment.spec import PlannedRun
from dowse.images.sources import open_images
from dowse.report.data.names import short_target
from dowse.report.text.markdown import table_lines
from dowse.store import Row, Store
from dowse.wording import NONE, day, plural, queries

FOLDER = Path(__file__).parent / "defences"
PAGE = Path(__file__).parents[1] / "docs" / "results" / "defences.md"
FILES = {
    "robust": "A robust network: CIFAR-10, l∞ 8/255",
    "robust_vit": "A robust vision transformer: CIFAR-10, l∞ 8/255",
    "mobilenetv2": "A normal network: ImageNet, l2 with the paper's ε",
}
LIMIT = "robust_limit"
CLEAN = "clean.json"
LEGEND = """\
A cell: the share of the attacked images that were fooled / the mean of queries with a failure counted as the budget
(images attacked). The query of the unchanged image is counted. *Clean* is the accuracy behind the defence on the first
images of the set (how many), each shown once, by one account where the defence remembers: an image that is refused is
not right. Of fewer images than 100 it is how many of those shown to an attack were right, each by its own account.
A run that was cut short counts up to its first unfinished image. Few images say little: a share of n images
is known to about ±1/√n. `then=refuse`, and what an attack hears of a refused query, is explained in
[defences](../defences.md#services-that-remember). Dowse has nothing that evades detection: what stands here is what
attacks do that do not know of it."""


@dataclass(frozen=True)
class Cell:
    """A method against a defence: its rows so far, with the budget that they were run with, and what was asked for."""

    rows: Sequence[Row]
    budget: int
    asked: tuple[int | None, int]  # images and budget

    @property
    def size(self) -> tuple[int, int]:
        """How many images are done, and with which budget."""
        return len(self.rows), self.budget

    @property
    def whole(self) -> bool:
        """Whether it was run as it was asked for."""
        images, budget = self.asked
        return self.budget >= budget and (images is None or len(self.rows) >= images)

    @property
    def summary(self) -> Summary:
        """What the rows amount to."""
        return summarize(self.rows)

    def words(self, usual: tuple[int, int]) -> str:
        """Success, mean queries and images attacked, and its size where that is not the usual one; or "not run"."""
        s = self.summary
        if not s.n:
            return "not run"
        unusual = "" if self.size == usual else f"; {plural(len(self.rows), 'image')}, budget {self.budget:,}"
        return f"{s.asr:.0%} / {queries(s.mean_queries_budget)} ({s.n}{unusual})"


Cells = dict[str, dict[str, Cell]]  # by defence, in that by method


def defence_of(target: str) -> str:
    """What stands in front of the network in a spec; "none" if nothing does."""
    front, plus, _ = target.rpartition("+")
    return front if plus else "none"


def plans(name: str) -> list[PlannedRun]:
    """The runs of a file."""
    experiment = load_experiment(FOLDER / f"{name}.toml")
    return plans_of(experiment, open_images(experiment.images.path, experiment.images.labels))


def leading(rows: Sequence[Row]) -> list[Row]:
    """The rows before the first image that is not done: what a run that was cut short did later is the easy part."""
    by_place = {row.position: row for row in rows}
    return [by_place[place] for place in itertools.takewhile(by_place.__contains__, itertools.count())]


def cells_of(planned: Sequence[PlannedRun], store: Store) -> Cells:
    """What the store has of each run that a file asks for."""
    there = {run.id: run for run in store.runs()}
    cells: Cells = {}
    for plan in planned:
        run = there.get(plan.spec.id)
        budget = plan.budget if run is None else min(run.budget, plan.budget)
        rows = [] if run is None else store.counted(run.id, budget, plan.count or run.count).rows
        rows = leading(rows)
        cells.setdefault(defence_of(plan.spec.target), {})[plan.title] = Cell(rows, budget, (plan.count, plan.budget))
    return cells


def table(cells: Cells, clean: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """A line a defence, a column a method, clean accuracy beside them."""
    methods = list(dict.fromkeys(method for of in cells.values() for method in of))
    every = [cell for of in cells.values() for cell in of.values()]
    usual, _ = Counter(cell.size for cell in every if cell.summary.n).most_common(1)[0]
    images, budget = every[0].asked
    asked = "" if all(cell.whole for cell in every) else f" (the file asks for {images} and {budget:,})"
    size = f"On the first {plural(usual[0], 'image')} with a budget of {usual[1]:,}{asked}"
    yield f"{size}, where a cell does not say otherwise."
    yield ""
    rows = [
        (
            f"`{defence}`",
            accuracy(clean.get(defence) or shown(of)),
            *(of[m].words(usual) if m in of else NONE for m in methods),
        )
        for defence, of in cells.items()
    ]
    yield from table_lines(("defence", "clean", *methods), rows)


def shown(of: Mapping[str, Cell]) -> Mapping[str, float] | None:
    """How many of the images that attacks began with were right unchanged: of the method that was shown the most."""
    rows = max((cell.rows for cell in of.values()), key=len)
    right = summarize(rows).n
    return {"defended": right / len(rows), "images": len(rows)} if rows else None


def accuracy(found: Mapping[str, float] | None) -> str:
    """Clean accuracy behind a defence, and of how many images."""
    return "not measured" if found is None else f"{found['defended']:.1%} ({found['images']:.0f})"


def detection(cells: Cells) -> Iterator[str]:
    """What the services that remember saw of each method; no line where none was run."""
    rows = []
    for defence, of in cells.items():
        for method, cell in of.items():
            s = cell.summary
            if defence.startswith(("blacklight", "piha")) and s.n:
                share = f"{s.detected} of {s.n}"
                rows.append((f"`{defence}`", method, share, queries(s.queries_until_detected), f"{s.coverage:.1%}"))
    if rows:
        yield ""
        yield from table_lines(
            ("detector", "method", "images detected", "queries until detected, mean", "coverage: queries refused"), rows
        )


def limit(networks: Collection[str], store: Store) -> Iterator[str]:
    """What white-box PGD fools of a robust network, which is taken for what can be fooled."""
    for of in cells_of([plan for plan in plans(LIMIT) if plan.spec.target in networks], store).values():
        for title, cell in of.items():
            s = cell.summary
            done = f"{s.successes} of {s.n} fooled, {s.asr:.0%}, budget {cell.budget:,}" if s.n else "not run"
            yield f"The limit, {title}, without a defence: {done}."


def missing(tables: Mapping[str, Cells]) -> Iterator[str]:
    """What was asked for and not run, or not to its end."""
    for name, cells in tables.items():
        gone = [f"{m} on `{d}`" for d, of in cells.items() for m, cell in of.items() if not cell.summary.n]
        part = [cell for of in cells.values() for cell in of.values() if cell.summary.n and not cell.whole]
        if gone and len(gone) == sum(map(len, cells.values())):
            yield f"- `{name}`: all of it."
        elif gone:
            yield f"- `{name}`, not run: {', '.join(gone)}."
        if part:
            every = sum(map(len, cells.values()))
            yield f"- `{name}`, on fewer images or with a smaller budget than asked for: {len(part)} of {every} cells."


def page(tables: Mapping[str, Cells], clean: Mapping[str, Any], store: Store, note: str = "") -> Iterator[str]:
    """The whole page."""
    sessions = [session for session in store.sessions() if session.queries]
    days = sorted({day(session.started) for session in sessions}) or ["never"]
    yield "# Attacks against defences"
    yield ""
    yield "    dowse run experiments/defences/FILE.toml --out out/defences      # each; --images, --budget make it less"
    yield "    python experiments/defences.py measure out/defences"
    yield "    python experiments/defences.py out/defences"
    yield ""
    rows = [row for cells in tables.values() for of in cells.values() for cell in of.values() for row in cell.rows]
    budgets = sorted({row.budget for row in rows})
    said = f", budget {' and '.join(f'{budget:,}' for budget in budgets)}" if budgets else ""
    asked = sum(session.queries for session in sessions)
    yield f"Run {' to '.join(days[:1] + days[1:][-1:])}, seed 0{said}, {asked:,} queries in all."
    yield ""
    yield from LEGEND.splitlines()
    if note:
        yield ""
        yield note
    for name, cells in tables.items():
        yield ""
        yield f"## {FILES[name]}"
        yield ""
        networks = {plan.spec.target.rpartition("+")[2] for plan in plans(name)}
        yield f"{', '.join(sorted(map(short_target, networks)))}; `experiments/defences/{name}.toml` has all settings."
        yield ""
        if not any(cell.summary.n for of in cells.values() for cell in of.values()):
            yield "Not run."
            continue
        yield from table(cells, clean.get(name, {}))
        yield from detection(cells)
        for line in limit(networks, store):
            yield from ("", line)
    gone = list(missing(tables))
    yield ""
    yield "Not run, or not to the end:" if gone else "Every cell was run on all its images."
    if gone:
        yield ""
        yield from gone


def clean_file(place: Path) -> Path:
    """Where the clean accuracies are: in a store's folder, or beside a packed file."""
    return place / CLEAN if place.suffix != ".jsonl" else place.with_suffix(f".{CLEAN}")


def measure(place: Path, most: int) -> None:
    """Measure the clean accuracy behind every defence on the first images of each file's set."""
    import torch

    from dowse.defences.measure import measure_defence
    from dowse.targets import resolve_target

    file = clean_file(place)
    found: dict[str, dict[str, dict[str, float]]] = json.loads(file.read_text()) if file.exists() else {}
    for name in FILES:
        experiment = load_experiment(FOLDER / f"{name}.toml")
        source = open_images(experiment.images.path, experiment.images.labels)
        entries = source.entries[:most]
        size = experiment.images.size
        x = torch.stack([source.read(place, size) for place in range(len(entries))]).float()
        y = torch.tensor([entry.label for entry in entries])
        for target in dict.fromkeys(plan.spec.target for plan in plans(name)):
            defence = defence_of(target)
            of = found.setdefault(name, {})
            if defence in of and of[defence]["images"] >= len(x):
                continue
            torch.manual_seed(0)
            net, defended = resolve_target(target.rpartition("+")[2]), resolve_target(target)
            (clean,) = measure_defence(net, defended, net, x, y, [])  # type: ignore[arg-type]
            of[defence] = {"images": len(x), "undefended": clean.undefended, "defended": clean.defended}
            file.write_text(json.dumps(found, indent=1))


def main(words: Sequence[str]) -> None:
    """Measure, or write the page."""
    if words[:1] == ["measure"]:
        measure(Path(words[1]), int(words[2]) if len(words) > 2 else 500)
        return
    place = Path(words[0])
    clean = json.loads(clean_file(place).read_text()) if clean_file(place).exists() else {}
    with Store(place) as store:
        tables = {name: cells_of(plans(name), store) for name in FILES}
        PAGE.write_text("\n".join(page(tables, clean, store, " ".join(words[1:]))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
