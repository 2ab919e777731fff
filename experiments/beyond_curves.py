"""Draws docs/results/figures/beyond: which share of the images each attack has fooled after so many queries.

python experiments/beyond_curves.py out/beyond [another store …]
python experiments/beyond_curves.py docs/results/rows/beyond.jsonl     # or files that `dowse pack out/beyond` wrote
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np
from beyond import OURS, RESULTS, Rows, attacked, plans
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from dowse.figures import style
from dowse.report.data.names import short_target
from dowse.store import Store
from dowse.wording import queries

PANELS = (  # file, target, norm, title
    ("l2", "MobileNetV2", "l2", "MobileNetV2, l2, the paper's ε"),
    ("l2", "ResNet-18", "l2", "ResNet-18, l2, the paper's ε"),
    ("l2_quarter", "MobileNetV2", "l2", "MobileNetV2, l2, ε/4"),
    ("linf", "MobileNetV2", "linf", "MobileNetV2, l∞, 0.05"),
    ("none", "MobileNetV2", "l2", "MobileNetV2, l2, no surrogate"),
    ("linf", "ResNet-50", "linf", "ResNet-50, l∞, 0.05"),
)
COLOURS = {
    OURS: style.VERMILION, "GFCS": style.BLUE, "Square": style.GREEN, "SimBA-ODS": style.PURPLE,
    "P-RGF, q = 10": style.ORANGE, "ODS-RGF": style.SKY,
}  # fmt: skip
FEWEST, MOST = 15, 2500  # images of a curve; queries of the axis


def curves(stores: Sequence[Store], file: str, target: str, norm: str) -> dict[str, Rows]:
    """The attacked rows of each method that was run there on enough images."""
    found = {}
    for plan in plans(file):
        at = short_target(plan.spec.target), plan.spec.norm
        if at == (target, norm):
            rows = attacked(stores, plan.spec.id)
            if len(rows) >= FEWEST:
                found[plan.title] = rows
    return found


def draw(axes: Axes, methods: Mapping[str, Rows]) -> None:
    """A step a fooled image; a curve ends where its smallest budget does."""
    for title, rows in sorted(methods.items(), key=lambda item: item[0] == OURS):
        colour, label = COLOURS.get(title, style.BLACK), f"{title} ({len(rows)})"
        spent = sorted(row.queries for row in rows.values() if row.success)
        end = min([MOST, *(row.budget for row in rows.values() if not row.success)])
        spent = [one for one in spent if one <= end]
        x, y = [1, *spent, end], np.array([0, *range(1, len(spent) + 1), len(spent)]) / len(rows)
        axes.step(x, y, where="post", label=label, color=colour, linewidth=2.4 if title == OURS else 1.4)
    axes.set(xscale="log", xlim=(1, MOST), ylim=(0, 1.03), xlabel="queries", ylabel="fooled")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: queries(value)))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none")


def main(folders: Sequence[str]) -> None:
    """Draw the figure from the stores in some folders, or packed ones."""
    with ExitStack() as stack, style.sheet((9.5, 5.6)) as figure:
        stores = [stack.enter_context(Store(folder)) for folder in folders]
        for axes, (file, target, norm, title) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
            draw(axes, curves(stores, file, target, norm))
            axes.set_title(title)
        style.save(figure, RESULTS / "figures", "beyond")


if __name__ == "__main__":
    main(sys.argv[1:])
