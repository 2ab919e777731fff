"""Figure 1a: one image under RGF and under P-RGF after 0, 100, 200, … queries, with its loss and the verdict."""

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from torch import Tensor

from dowse.api import attack
from dowse.core.flow import Query
from dowse.core.observers import Observer
from dowse.core.reply import Reply
from dowse.core.result import Result
from dowse.core.task import Task
from dowse.errors import InputError, nearest
from dowse.figures import style
from dowse.figures.panel import Laboratory, Numbers, Panel
from dowse.figures.scene import Scene
from dowse.report.html.thumbnails import to_picture

METHODS = {"RGF": "rgf", "P-RGF": "prgf"}
STEPS = (100, 200, 500, 1000, 2000)  # queries between two pictures; the first that needs few enough pictures
MOST = 7  # pictures of a method
SIDE, QUALITY = 160, 90  # of a picture in the JSON


@dataclass(frozen=True)
class Frame:
    """An iterate, (*s), when it was asked about: the queries so far, its loss, and what the target takes it for."""

    x: Tensor
    queries: int
    loss: float
    predicted: int


class Film(Observer):
    """Keeps every iterate of the attack on one image."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.queries = 0

    def answered(self, task: Task, query: Query, reply: Reply) -> None:
        """Keep an iterate."""
        self.queries += reply.answered
        row = reply.last
        if query.candidate and reply.answer is not None and row is not None and reply.predicted is not None:
            x, loss = query.points[row].detach().clone(), float(reply.answer.loss[row])
            self.frames.append(Frame(x, self.queries, loss, reply.predicted))

    def at(self, queries: int) -> Frame:
        """The last iterate asked about within so many queries; the original is there from the start."""
        return [frame for frame in self.frames if frame is self.frames[0] or frame.queries <= queries][-1]


def compute(lab: Laboratory) -> Numbers:
    """The pictures of one image: the one named, or the one that is hardest to both methods."""
    scene, setting = lab.scene, lab.setting
    chosen, basis = _chosen(lab)
    films: dict[str, Film] = {}
    for done, (title, method) in enumerate(METHODS.items()):
        lab.tell("the chosen image again", done, len(METHODS))
        films[title] = Film()
        _attack(lab, method, chosen, chosen + 1, [films[title]])
    marks = _marks(max(film.queries for film in films.values()))
    label = int(scene.labels[chosen])
    return {
        "image": scene.names[chosen],
        "label": scene.class_name(label),
        "basis": basis,
        "marks": marks,
        "norm": setting.norm,
        "rows": {
            title: {
                "queries": film.queries,
                "fooled": film.frames[-1].predicted != label,
                "pictures": [_picture(film.at(mark), scene, label) for mark in marks],
            }
            for title, film in films.items()
        },
    }


def _attack(lab: Laboratory, method: str, start: int, stop: int, observers: list[Film]) -> Result:
    scene, setting = lab.scene, lab.setting
    total = stop - start
    what = f"attacks by {method}"
    return attack(
        scene.asked,
        scene.images[start:stop],
        scene.labels[start:stop],
        method=method,
        surrogate=scene.surrogate,
        norm=setting.norm,
        budget=setting.budget,
        seed=setting.seed,
        q=setting.q,
        observers=observers,
        on_progress=lambda progress: lab.tell(what, progress.done, total) if total > 1 else None,
    )


def _chosen(lab: Laboratory) -> tuple[int, str]:
    """The index of the image to show, and why it is the one."""
    scene, wanted = lab.scene, lab.setting.image
    if wanted is not None:
        if wanted not in scene.names:
            raise InputError(f"image={wanted!r} is none of the images looked at: {nearest(wanted, scene.names)}")
        return scene.names.index(wanted), "named"
    n = len(scene.images)
    rgf, prgf = (_attack(lab, method, 0, n, []) for method in METHODS.values())
    both = [i for i in range(n) if rgf.success[i] and prgf.success[i]]
    if not both:
        return 0, "the first; no image is fooled by both methods"
    dearest = max(both, key=lambda i: int(rgf.queries[i] + prgf.queries[i]))
    return dearest, f"of {len(both)} images that both methods fool, the one that costs the two most queries together"


def _marks(queries: int) -> list[int]:
    """The counts of queries at which pictures are shown, up to the first that is no less than `queries`."""
    step = next((step for step in STEPS if -(-queries // step) < MOST), STEPS[-1])
    return [step * i for i in range(min(MOST, max(3, -(-queries // step) + 1)))]


def _picture(frame: Frame, scene: Scene, label: int) -> dict[str, Any]:
    return {
        "jpeg": style.as_jpeg(to_picture(frame.x, SIDE), QUALITY),
        "loss": frame.loss,
        "queries": frame.queries,
        "predicted": scene.class_name(frame.predicted),
        "fooled": frame.predicted != label,
    }


def draw(figure: style.AnyFigure, numbers: Numbers) -> None:
    """Two rows of pictures, in red frames while the target holds out and in a green one where it is fooled."""
    rows, marks = numbers["rows"], numbers["marks"]
    grid = figure.subplots(len(rows), len(marks), squeeze=False)
    for axes_row, (title, row) in zip(grid, rows.items(), strict=True):
        until = next((i for i, picture in enumerate(row["pictures"]) if picture["fooled"]), len(marks))
        for i, (axes, picture) in enumerate(zip(axes_row, row["pictures"], strict=True)):
            if i <= until:
                _draw_picture(axes, picture)
            else:
                axes.axis("off")
        axes_row[0].set_ylabel(title, fontweight="bold", fontsize=9.5, labelpad=6)
    for axes, mark in zip(grid[0], marks, strict=True):
        axes.set_title(f"{mark:,} queries", fontsize=8, fontweight="normal", loc="center", pad=5, color=style.BLACK)
    figure.suptitle("(a) one image under both attacks", x=0.005, ha="left", fontsize=9, fontweight="bold")


def _draw_picture(axes: Axes, picture: dict[str, Any]) -> None:
    colour, mark = (style.FOOLED, "✓") if picture["fooled"] else (style.HELD, "✗")
    axes.imshow(style.from_jpeg(picture["jpeg"]))
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=colour, linewidth=2.4)
    said = f"loss {picture['loss']:.2f}\n{mark} {_short(picture['predicted'])}"
    if picture["fooled"]:
        said += f"\nafter {picture['queries']:,} queries"
    axes.set_xlabel(said, fontsize=7.2, color=colour)


def _short(name: str, most: int = 17) -> str:
    return name if len(name) <= most else name[: most - 1].rstrip() + "…"


def sentence(numbers: Numbers) -> str:
    """What the image cost each method."""
    costs = [
        f"{title} {'fools the target with' if row['fooled'] else 'does not fool it within'} {row['queries']:,} queries"
        for title, row in numbers["rows"].items()
    ]
    return f"{numbers['image']} ({numbers['label']}): {', '.join(costs)}"


FIGURE1A = Panel("figure1a", "an image under RGF and P-RGF", lambda numbers: (0.5 + 1.16 * len(numbers["marks"]), 3.6),
                 compute, draw, sentence)  # fmt: skip
