"""Figure 2: the average number of queries per fooled image at any success rate, a panel a target, from a store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dowse.errors import InputError
from dowse.figures import style
from dowse.figures.panel import Laboratory, Numbers, Panel
from dowse.report.data.gather import runs_of
from dowse.report.data.names import norm_sign, own_titles, short_target
from dowse.store import Counted, Row, RunInfo, Store

COLOURS = {
    "prgf": style.VERMILION,
    "rgf": style.BLUE,
    "averaging": style.GREEN,
    "nes": style.ORANGE,
    "bandits": style.PURPLE,
    "autozoom": style.SKY,
    "spsa": style.QUIET,
}
FIXED = ("lam", "mu")  # options that fix what theory would choose: drawn thinner, the smaller the lighter
MOST_COLUMNS = 3


def compute(lab: Laboratory) -> Numbers:
    """The queries of all fooled images of each run, by target and norm."""
    folder = lab.setting.store
    if folder is None:
        raise InputError("figure2 is drawn from a store: give --store DIR, a folder that `dowse run` wrote")
    panels: dict[tuple[str, str], list[tuple[RunInfo, Counted]]] = defaultdict(list)
    with Store(folder) as store:
        for run in runs_of(store, lab.setting.experiment):
            counted = store.counted(run.id, run.budget, run.count)
            if counted.attacked:
                panels[run.content["target"], run.content["norm"]].append((run, counted))
    if not panels:
        raise InputError(f"the store {folder} holds no attacked image yet: `dowse status {folder}` says how far it is")
    return {
        "panels": [
            {"target": target, "norm": norm, "curves": _curves(attacks)} for (target, norm), attacks in panels.items()
        ]
    }


def _curves(attacks: Sequence[tuple[RunInfo, Counted]]) -> list[dict[str, Any]]:
    """A curve a run; easy images end first, so a run that is under way says so in its title."""
    titles = own_titles([[run for run, _ in attacks]])
    return [
        _curve(run, titles[run.id] + (", under way" if counted.unfinished else ""), counted.attacked)
        for run, counted in attacks
    ]


def _curve(run: RunInfo, title: str, attacked: Sequence[Row]) -> dict[str, Any]:
    options = run.content["options"]
    return {
        "run": run.id,
        "title": title,
        "method": run.content["method"],
        "fixed": next((options[word] for word in FIXED if options.get(word) is not None), None),
        "data_prior": options.get("subspace") is not None,
        "attacked": len(attacked),
        "budget": run.budget,
        "queries": sorted(row.queries for row in attacked if row.success),
    }


def averages(queries: Sequence[int], attacked: int) -> tuple[np.ndarray, np.ndarray]:
    """Success rates k/attacked and the mean of the k smallest of the sorted queries, (k,) each.

    It is what the k easiest images cost on average: the least that a success rate can be had for.
    """
    spent = np.asarray(queries, dtype=np.float64)
    rank = np.arange(1, len(spent) + 1)
    return rank / max(1, attacked), spent.cumsum() / rank


def draw(figure: style.AnyFigure, numbers: Numbers) -> None:
    """A panel a target and norm, one legend for all of them."""
    panels = numbers["panels"]
    columns = min(MOST_COLUMNS, len(panels))
    grid = list(figure.subplots(-(-len(panels) // columns), columns, squeeze=False).flat)
    several = len({panel["norm"] for panel in panels}) > 1
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid, panels, strict=False):
        for curve in panel["curves"]:
            handles.setdefault(curve["title"], _draw_curve(axes, curve))
        title = short_target(panel["target"]) + (f", {norm_sign(panel['norm'])}" if several else "")
        axes.set(title=title, xlabel="success rate (%)", ylabel="average queries", xlim=(0, 100), ylim=(0, None))
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.legend(
        handles=list(handles.values()), labels=list(handles), loc="outside lower center",
        ncols=_legend_columns(numbers),
    )  # fmt: skip


def sheet_size(numbers: Numbers) -> tuple[float, float]:
    """Width and height in inches for so many targets and methods."""
    columns = min(MOST_COLUMNS, len(numbers["panels"]))
    rows, legend_rows = -(-len(numbers["panels"]) // columns), -(-len(_titles(numbers)) // _legend_columns(numbers))
    return _width(columns), 2.6 * rows + 0.17 * legend_rows + 0.3


def _width(columns: int) -> float:
    return 4.6 if columns == 1 else 0.6 + 3.0 * columns


def _titles(numbers: Numbers) -> list[str]:
    return list(dict.fromkeys(curve["title"] for panel in numbers["panels"] for curve in panel["curves"]))


def _legend_columns(numbers: Numbers) -> int:
    """As many columns of the legend as fit the sheet: a letter takes about 0.07 inches, a line's sample 0.5."""
    titles = _titles(numbers)
    fitting = _width(min(MOST_COLUMNS, len(numbers["panels"]))) / (0.5 + 0.07 * max(map(len, titles)))
    return max(1, min(len(titles), int(fitting)))


def _draw_curve(axes: Axes, curve: Mapping[str, Any]) -> Any:
    rates, means = averages(curve["queries"], curve["attacked"])
    fixed = curve["fixed"]
    (line,) = axes.plot(
        100 * rates,
        means,
        color=COLOURS.get(curve["method"], style.BLACK),
        linestyle="--" if curve["data_prior"] else "-",
        linewidth=1.8 if fixed is None else 1.0,
        alpha=1.0 if fixed is None else 0.9 if fixed >= 0.3 else 0.5,
        label=curve["title"],
    )
    if len(rates):
        (end,) = axes.plot(100 * rates[-1:], means[-1:], color=line.get_color(), alpha=line.get_alpha(), marker="o")
        end.set(markersize=3, clip_on=False)
    return line


def sentence(numbers: Numbers) -> str:
    """Success rate and average of every method on every target."""
    said = []
    for panel in numbers["panels"]:
        parts = []
        for curve in panel["curves"]:
            queries = curve["queries"]
            mean = f"{np.mean(queries):.0f} queries" if queries else "none fooled"
            parts.append(f"{curve['title']} {len(queries) / curve['attacked']:.1%}, {mean}")
        said.append(f"{short_target(panel['target'])} ({panel['norm']}): {'; '.join(parts)}")
    return "\n".join(said)


FIGURE2 = Panel("figure2", "average queries at any success rate, from a store", sheet_size, compute, draw, sentence)
