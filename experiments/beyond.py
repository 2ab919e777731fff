"""Writes docs/results/beyond.md: our own attack beside the strongest published ones, and which bars it meets.

python experiments/beyond.py out/beyond [another store …]
python experiments/beyond.py docs/results/rows/beyond.jsonl     # or files that `dowse pack out/beyond` wrote

Its short forms go between the marks in docs/results.md, a line a setting and target, and README.md, a line a setting.

A run that several stores hold is taken from the last of them, so that one method can be run again by itself.
"""

import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from results import column_of

from dowse.core.outcome import End
from dowse.core.summary import Summary, summarize
from dowse.experiment.file import load_experiment
from dowse.experiment.grid import plans_of
from dowse.experiment.spec import PlannedRun
from dowse.images.sources import open_images
from dowse.report.data.names import short_target
from dowse.report.text.markdown import table_lines
from dowse.store import Row, Store
from dowse.wording import day, queries

Rows = Mapping[str, Row]  # by image

FOLDER = Path(__file__).parent / "beyond"
RESULTS = Path(__file__).parents[1] / "docs" / "results"
OURS, WHITE_BOX = "Dowse", "PGD, white-box"
FEWEST = 5  # images in common, below which a cell is left out
MARKS = ("<!-- beyond.py writes from here -->", "<!-- to here -->")
SIGNS = {"l2": "l2", "linf": "l∞"}


@dataclass(frozen=True)
class Setting:
    """A row of the bar: what it is called, and at most which share of the best other method's mean ours may need.

    `linf` is the row in l∞ where a file has both norms and they differ.
    """

    words: str
    bar: float
    median: float | None = None
    linf: "Setting | None" = None

    def in_norm(self, norm: str) -> "Setting":
        """The row that holds in a norm."""
        return self.linf if self.linf and norm == "linf" else self


SETTINGS = {
    "l2": Setting("the paper's ε, one surrogate", 0.2, 2),
    "l2_three": Setting("the paper's ε, three surrogates", 0.5, 2),
    "l2_three_others": Setting("the paper's ε, three other surrogates", 0.5, 2),
    "l2_quarter": Setting("ε/4", 0.5),
    "linf": Setting("0.05", 0.3),
    "linf_4": Setting("4/255", 0.6),
    "targeted": Setting("targeted", 0.6),
    "none": Setting("no surrogate", 0.95),
    "defences": Setting("a defence", 0.8),
    "rounded": Setting("two decimals", 0.8),
    "top5": Setting("five classes shown", 0.8),
    "inception": Setting("the paper's ε, one surrogate", 0.2, 2, linf=Setting("0.05", 0.3)),
}
LEGEND = """\
Every line stands on the images that both methods attacked; a run that was cut short counts up to its first unfinished
image. *Mean* counts a failure as the budget, the query of the unchanged image is counted, *median* counts failures as
infinite, seconds are those that a picture was under attack beside seven others, on a busy machine. *Ratio* is our mean
over theirs. *Budget* is 10,000 where ours was given that on every image that it did not fool and the other method can
fool no more images than ours did. Where that one gave up on some with less, its mean is what it spent at least (≥), and
the ratio is one that more queries can only lower (≤). Elsewhere, and where such a ratio is above the bar and so tells
nothing, the budget is the largest that both were given on all of these images, and both are cut to it, which makes
failures cheap. Of the other methods on a target the best, the one
that ours gains least on among those that were run on at least half as many images as any, stands first, in bold. A bar
is met where ours needs at most that share of *its* mean, has the median that the bar asks for and fools no fewer
images."""


@dataclass(frozen=True)
class Pair:
    """Ours and another method on the images that both attacked.

    Attributes:
        other: The other method's title.
        budget: What ours was given.
        given: The least that the other method was given: where that is less, their mean is a least one.
        ours: What ours amounts to.
        theirs: What theirs amounts to.
        seconds: What a picture took of each.
    """

    other: str
    budget: int
    given: int
    ours: Summary
    theirs: Summary
    seconds: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Our mean over theirs, failures at the budget."""
        return self.ours.mean_queries_budget / self.theirs.mean_queries_budget

    @property
    def means(self) -> tuple[str, str]:
        """Both means in words; theirs said to be the least possible where it is."""
        ours, theirs = (queries(side.mean_queries_budget) for side in (self.ours, self.theirs))
        return ours, f"{'≥ ' if self.given < self.budget else ''}{theirs}"

    @property
    def shares(self) -> tuple[str, str]:
        """Both shares of images fooled in words; theirs within how many queries where these are fewer."""
        ours, theirs = (f"{side.asr:.0%}" for side in (self.ours, self.theirs))
        return ours, f"{theirs} in ≥ {self.given:,}" if self.given < self.budget else theirs

    @property
    def ratio_words(self) -> str:
        """The ratio, said to be the greatest possible where it is."""
        return f"{'≤ ' if self.given < self.budget else ''}{self.ratio:.2f}"

    def meets(self, setting: Setting) -> bool:
        """Whether ours needs few enough queries and fools no fewer images."""
        quick = setting.median is None or self.ours.median_queries <= setting.median
        return self.ratio <= setting.bar and self.ours.successes >= self.theirs.successes and quick


Tables = Mapping[str, Mapping[tuple[str, str], Sequence[Pair]]]  # by file, in that by target and norm


def pair(other: str, budget: int, ours: Rows, theirs: Rows, bar: float = math.inf) -> Pair | None:
    """The two sides on their common images; None if these are too few.

    The bar is what the most that our share can be is held against: where that is more, it says nothing.
    """
    both = sorted(ours.keys() & theirs.keys())
    if len(both) < FEWEST:
        return None
    sides = [[side[image] for image in both] for side in (ours, theirs)]
    spent = [[row.budget for row in side if row.end is End.BUDGET] for side in sides]
    given = min([budget, *spent[1]])
    # a row that ran out of less would go on: within the whole budget the other side may fool these too
    their_most = sum(row.success or (row.end is End.BUDGET and row.budget < budget) for row in sides[1])
    known = min(spent[0], default=budget) >= budget and their_most <= sum(row.success for row in sides[0])
    whole = _within(budget, other, given, sides)
    if known and (whole.ratio <= bar or given == budget):
        return whole
    both_had = min([given, *spent[0]])
    return _within(both_had, other, both_had, sides)


def _within(budget: int, other: str, given: int, sides: Sequence[Sequence[Row]]) -> Pair:
    ours, theirs = (summarize([row.within(budget) for row in side]) for side in sides)
    seconds = fmean(row.seconds for row in sides[0]), fmean(row.seconds for row in sides[1])
    return Pair(other, budget, given, ours, theirs, seconds)


def attacked(stores: Sequence[Store], run: str) -> Rows:
    """The attacked rows of a run by image, from the last store that has any."""
    for store in reversed(stores):
        if run in {one.id for one in store.runs()}:
            rows = leading(store.rows(run))
            if rows:
                return {row.checksum: row for row in rows if row.end.attacked}
    return {}


def leading(rows: Iterable[Row]) -> list[Row]:
    """The rows before the first image that has none: what a run that was cut short did later is the easy part of it."""
    by_place = {row.position: row for row in rows}
    return [by_place[place] for place in itertools.takewhile(by_place.__contains__, itertools.count())]


def plans(name: str) -> list[PlannedRun]:
    """The runs of a file."""
    experiment = load_experiment(FOLDER / f"{name}.toml")
    return plans_of(experiment, open_images(experiment.images.path, experiment.images.labels))


def pairs_of(name: str, stores: Sequence[Store]) -> dict[tuple[str, str], list[Pair]]:
    """By target and norm ours beside every other method that was run there, the best other first."""
    cells: dict[tuple[str, str], dict[str, tuple[int, Rows]]] = {}
    for plan in plans(name):
        cell = cells.setdefault((short_target(plan.spec.target), plan.spec.norm), {})
        cell[plan.title] = plan.budget, attacked(stores, plan.spec.id)
    found = {}
    for at, methods in cells.items():
        budget, ours = methods.pop(OURS)
        bar = SETTINGS[name].in_norm(at[1]).bar
        compared = [pair(title, budget, ours, theirs, bar) for title, (_, theirs) in methods.items()]
        found[at] = best_first([one for one in compared if one])
    return found


def best_first(pairs: Sequence[Pair]) -> list[Pair]:
    """The one that ours gains least on first; those of less than half of the most images come last."""
    most = max((one.ours.n for one in pairs), default=0)
    return sorted(pairs, key=lambda one: (2 * one.ours.n < most, -one.ratio))


def compared(tables: Tables) -> Iterator[str]:
    """The long table: a line for each other method, target and setting."""
    rows: list[tuple[str, ...]] = []
    for setting, target, norm, found in cells_of(tables):
        for number, one in enumerate(found):
            met = ("**met**" if one.meets(setting) else "missed") if number == 0 else ""
            rows.append(
                (
                    f"{SIGNS[norm]}, {setting.words}", target, f"**{one.other}**" if number == 0 else one.other,
                    str(one.ours.n), f"{one.budget:,}", *sides(one), one.ratio_words,
                    f"≤ {setting.bar:g}" if number == 0 else "", met,
                )
            )  # fmt: skip
    heads = ("setting", "target", "other", "images", "budget", "ours: mean / median / ASR / s", "theirs", "ratio")
    yield from table_lines((*heads, "bar", ""), rows)


def best(tables: Tables) -> Iterator[str]:
    """The short table: of each target and setting the best other method alone, with our own bars."""
    rows: list[tuple[str, ...]] = []
    for setting, target, norm, found in cells_of(tables):
        for one in found[:1]:
            ours, theirs = (f"{mean} ({share})" for mean, share in zip(one.means, one.shares, strict=True))
            bar = f"≤ {setting.bar:g}, {'met' if one.meets(setting) else 'missed'}"
            size = f"{one.ours.n}, {one.budget:,}"
            where = f"{SIGNS[norm]}, {setting.words}", target
            rows.append((*where, size, ours, f"{one.other} {theirs}", one.ratio_words, bar))
    yield from table_lines(("setting", "target", "images, budget", "`dowse`", "best other", "ratio", "bar"), rows)


def matrix(tables: Tables) -> Iterator[str]:
    """The shortest table: a line a setting or defence, a column a model, our mean beside the best other's."""
    rows: dict[str, dict[str, str]] = {}
    for setting, target, norm, found in cells_of(tables):
        *defence, model = target.split(" + ")
        words = ", ".join((SIGNS[norm], *(defence or (setting.words.replace("other surrogates", "surrogates"),))))
        for one in found[:1]:
            rows.setdefault(words, {})[model] = beside(one)
    models = list(dict.fromkeys(model for row in rows.values() for model in row))
    lines = ((words, *(row.get(model, "") for model in models)) for words, row in rows.items())
    yield from table_lines(("queries, ours : best other", *models), list(lines))


def beside(one: Pair) -> str:
    """A cell of the shortest table; the share fooled where ours did not fool all."""
    ours, theirs = one.means
    if one.ours.successes < one.ours.n:
        ours, theirs = f"{ours} ({one.shares[0]})", f"{theirs} ({one.shares[1]})"
    return f"**{ours}** : {theirs} {one.other}"


def cells_of(tables: Tables) -> Iterator[tuple[Setting, str, str, Sequence[Pair]]]:
    """Setting, target, norm and comparisons, one after another."""
    for name, cells in tables.items():
        for (target, norm), found in cells.items():
            yield SETTINGS[name].in_norm(norm), target, norm, found


def put(file: Path, lines: Iterable[str]) -> None:
    """Write lines between the two marks of a page."""
    before, mark, rest = file.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        raise SystemExit(f"{file} lacks the marks {' and '.join(MARKS)}")
    file.write_text(f"{before}{mark}\n{chr(10).join(lines)}\n{end}{after}", encoding="utf-8")


def sides(one: Pair) -> tuple[str, str]:
    """Both sides of a comparison: mean / median / share fooled / seconds."""
    medians = (queries(side.median_queries) for side in (one.ours, one.theirs))
    parts = zip(one.means, medians, one.shares, one.seconds, strict=True)
    ours, theirs = (f"{mean} / {median} / {share} / {seconds:.0f}" for mean, median, share, seconds in parts)
    return ours, theirs


def missing(tables: Tables) -> Iterator[str]:
    """What a file asks for and nobody has run."""
    for name, cells in tables.items():
        gone = [f"{target} ({SIGNS[norm]})" for (target, norm), found in cells.items() if not found]
        if gone:
            yield f"- `{name}`: {', '.join(gone)}"


def useless(stores: Sequence[Store]) -> Iterator[str]:
    """Ours with a surrogate of random weights beside ours without any."""
    without = {
        plan.spec.norm: plan for plan in plans("none") if plan.title == OURS and "mobilenetv2" in plan.spec.target
    }
    for plan in plans("useless"):
        alone = attacked(stores, without[plan.spec.norm].spec.id)
        found = pair("without", plan.budget, attacked(stores, plan.spec.id), alone)
        words = f"A useless surrogate, MobileNetV2, {SIGNS[plan.spec.norm]}: "
        if found is None:
            yield words + "not run."
            continue
        with_it, alone_it = (queries(one.mean_queries_budget) for one in (found.ours, found.theirs))
        sides = f"mean {with_it} with it, {alone_it} without"
        met = "met" if found.ratio <= 1.15 else "missed"
        yield f"{words}{sides}, {found.ratio:.2f} (bar ≤ 1.15, {met}; {found.ours.n} images, budget {found.budget:,})."


def robust(stores: Sequence[Store]) -> Iterator[str]:
    """Of what white-box PGD fools on robust targets, the share that is fooled without gradients."""
    found: dict[tuple[str, float | None], dict[str, Rows]] = {}
    for plan in plans("robust"):
        methods = found.setdefault((short_target(plan.spec.target), plan.spec.eps), {})
        methods[plan.title] = attacked(stores, plan.spec.id)
    for (target, eps), methods in found.items():
        white = methods.pop(WHITE_BOX)
        for title, rows in methods.items():
            both = rows.keys() & white.keys()
            fallen = [image for image in both if white[image].success]
            words = f"Robust, `{target}`, l∞ {(eps or 0) * 255:g}/255, {title}: "
            if len(both) < FEWEST or not fallen:
                yield words + "not run."
                continue
            fooled = sum(rows[image].success for image in both)
            spent = queries(fmean(rows[image].queries for image in both))
            share = fooled / len(fallen)
            verdict = f", bar ≥ 0.9 {'met' if share >= 0.9 else 'missed'}" if title == OURS else ""
            counts = f"{fooled} of {len(both)} images fooled where PGD fools {len(fallen)}"
            yield f"{words}{counts}, {share:.2f} of them{verdict}; {spent} queries an image."


def table1(stores: Sequence[Store]) -> Iterator[str]:
    """Table 1 as it stands in these pages, with our row beneath."""
    page = (RESULTS / "table1.md").read_text(encoding="utf-8").splitlines()
    lines = [line for line in page if line.startswith("|")]
    ours = {
        column: plan
        for plan in (*plans("l2"), *plans("inception"))
        if plan.title == OURS and plan.spec.norm == "l2"
        for column in columns_of(plan)
    }
    heads = [head.strip() for head in lines[0].strip("|").split("|")[1:]]
    found = [attacked(stores, ours[head].spec.id) if head in ours else {} for head in heads]
    cells = [words_of(list(rows.values())) if len(rows) >= FEWEST else "–" for rows in found]
    yield from lines
    yield f"| **{OURS}** | {' | '.join(cells)} |"


def columns_of(plan: PlannedRun) -> tuple[str, str]:
    """What the columns that a run belongs to are called: by its target alone, or with its surrogates."""
    return short_target(plan.spec.target), column_of(plan.spec.target, plan.spec.surrogate)


def words_of(rows: Sequence[Row]) -> str:
    """A cell of Table 1: success, AVG. Q, median, images."""
    s = summarize(rows)
    return f"{s.asr:.1%} / {queries(s.mean_queries)} / {queries(s.median_queries)} ({s.n})"


def heading(stores: Sequence[Store]) -> Iterator[str]:
    """What the page is, and how and when its runs were made."""
    yield "# Beyond the paper: ours beside the strongest published attacks"
    yield ""
    yield "    dowse run experiments/beyond/FILE.toml --out out/beyond      # each; --images, --budget make it less"
    yield "    python experiments/beyond.py out/beyond"
    yield ""
    days = sorted({day(session.started) for store in stores for session in store.sessions()})
    asked = sum(session.queries for store in stores for session in store.sessions())
    yield f"Run {' to '.join(days[:1] + days[1:][-1:])}, seed 0, {asked:,} queries."
    yield ""


def page(tables: Tables, stores: Sequence[Store]) -> Iterator[str]:
    """The whole page."""
    yield from heading(stores)
    yield "![Which share of the images each attack has fooled after so many queries](figures/beyond.svg)"
    yield ""
    yield "`python experiments/beyond_curves.py out/beyond` draws it; in brackets the images that a method attacked."
    yield ""
    yield from LEGEND.splitlines()
    yield ""
    yield from compared(tables)
    yield ""
    yield from (f"- {line}" for line in (*useless(stores), *robust(stores)))
    yield ""
    yield "Not run, or on too few images to say anything:"
    yield ""
    yield from missing(tables)
    yield ""
    yield "## Table 1 of the paper with our row beneath"
    yield ""
    yield "Cells are those of [Table 1](table1.md), which says their budgets; ours are ASR / AVG. Q of successes /"
    yield "median (images attacked), with a budget of 10,000."
    yield ""
    yield from table1(stores)


def main(folders: Sequence[str]) -> None:
    """Write the page from the stores in some folders, or packed ones."""
    with ExitStack() as stack:
        stores = [stack.enter_context(Store(folder)) for folder in folders]
        tables = {name: pairs_of(name, stores) for name in SETTINGS}
        (RESULTS / "beyond.md").write_text("\n".join(page(tables, stores)) + "\n", encoding="utf-8")
    put(RESULTS.parent / "results.md", best(tables))
    put(RESULTS.parents[1] / "README.md", matrix(tables))


if __name__ == "__main__":
    main(sys.argv[1:])
