"""Which images a page shows, and what it shows of them: pictures, labels, distances; and which traces it carries."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from dowse.report.model import Group, Report, plain
from dowse.report.names import class_name
from dowse.report.thumbnails import data_address, magnified, round_factor
from dowse.store import Row, Store
from dowse.trace import Trace

A_RUN, IN_ALL = 24, 200  # adversarial images shown by default
TRACES, POINTS = 900, 60  # traces that a page carries at most, and points of each
MISSING = (OSError, ValueError, RuntimeError)  # an image file that is gone or cannot be read


@dataclass
class Gallery:
    """What a page shows of images, each picture once.

    Attributes:
        pictures: data: addresses by name.
        strips: One an image of a group: the original and what each method made of it.
        traces: By group "table.group", image and method, thinned.
        limited: Whether there are more adversarial images than are shown.
        thinned: Whether there are more traces than are carried.
    """

    pictures: dict[str, str] = field(default_factory=dict)
    strips: list[dict[str, Any]] = field(default_factory=list)
    traces: dict[str, dict[str, dict[int, dict[str, list[float | None]]]]] = field(default_factory=dict)
    limited: bool = False
    thinned: bool = False


def collect(report: Report, store: Store, *, a_run: int | None = None) -> Gallery:
    """The gallery of a report; `a_run` images of each run, by default 24, fewer where that makes more than 200."""
    runs = len(report.entries)
    wanted = min(A_RUN, max(1, IN_ALL // max(runs, 1))) if a_run is None else a_run
    gallery = Gallery()
    for place, group in _groups(report):
        images = _images(group)
        shown = sorted(_chosen(images, wanted), key=lambda name: _first(images[name]).position)
        gallery.limited |= sum(_has_picture(row) for found in images.values() for row in found.values()) > sum(
            _has_picture(row) for name in shown for row in images[name].values()
        )
        for name in shown:
            strip = _strip(gallery, store, place, group, name, images[name])
            if strip is not None:
                gallery.strips.append(strip)
        traced = [*shown, *(name for name in images if name not in set(shown))]
        room = max(1, TRACES // max(runs, 1))
        gallery.thinned |= len(traced) > room
        gallery.traces[place] = _traces(store, images, traced[:room])
    return gallery


def thin(trace: Trace, most: int = POINTS) -> dict[str, list[float | None]]:
    """A trace with every column cut to at most `most` of its values, each with the queries it was noted at.

    A column that says nothing is left out. The result holds two lists a name: "name" and "name@", the queries.
    """
    queries = trace.get("queries", [])
    thinned: dict[str, list[float | None]] = {}
    for name, column in trace.items():
        said = [(q, value) for q, value in zip(queries, column, strict=False) if value is not None and q is not None]
        if name == "queries" or not said:
            continue
        if len(said) > most:
            said = [said[round(i * (len(said) - 1) / (most - 1))] for i in range(most)]
        thinned[name] = [float(f"{value:.4g}") for _, value in said]
        thinned[f"{name}@"] = [q for q, _ in said]
    return thinned


def _groups(report: Report) -> list[tuple[str, Group]]:
    return [(f"{t}.{g}", group) for t, table in enumerate(report.tables) for g, group in enumerate(table.groups)]


def _images(group: Group) -> dict[str, dict[int, Row]]:
    """The rows of a group by image and by the method's place, in the order of the image set."""
    images: dict[str, dict[int, Row]] = {}
    for i, entry in enumerate(group.entries):
        for row in entry.attacked:
            images.setdefault(row.checksum, {})[i] = row
    return dict(sorted(images.items(), key=lambda item: _first(item[1]).position))


def _chosen(images: dict[str, dict[int, Row]], wanted: int) -> list[str]:
    """The images with the most pictures; among those with equally many, spread over the set."""
    counts = {name: sum(_has_picture(row) for row in rows.values()) for name, rows in images.items()}
    chosen: list[str] = []
    for count in sorted(set(counts.values()) - {0}, reverse=True):
        names, room = [name for name in images if counts[name] == count], wanted - len(chosen)
        if room <= 0:
            break
        step = max(1.0, len(names) / room)
        chosen += [names[int(i * step)] for i in range(min(room, len(names)))]
    return chosen


def _first(rows: dict[int, Row]) -> Row:
    return next(iter(rows.values()))


def _has_picture(row: Row) -> bool:
    return row.success and row.file is not None


def _strip(
    gallery: Gallery, store: Store, place: str, group: Group, name: str, rows: dict[int, Row]
) -> dict[str, Any] | None:
    """One image and what every method made of it; None if none of the pictures can be read."""
    first = _first(rows)
    try:
        original = store.original(first)
    except MISSING:
        return None
    gallery.pictures.setdefault(name, data_address(original))
    found = {method: _adversarial(store, row, original) for method, row in rows.items()}
    factor = min((round_factor(original, image) for image in found.values() if image is not None), default=1.0)
    cards = []
    for method, row in rows.items():
        card = {
            "m": method, "q": row.queries, "ok": row.success, "l2": _short(row.l2), "linf": _short(row.linf),
            "to": class_name(group.classes, row.predicted), "sure": _short(row.confidence), "end": row.end.sentence,
        }  # fmt: skip
        image = found[method]
        if image is not None:
            key = f"{row.run}.{row.task}"
            gallery.pictures[key] = data_address(image)
            gallery.pictures[f"{key}d"] = data_address(magnified(original, image, factor), quality=60)
            card |= {"a": key, "d": f"{key}d", "x": factor}
        cards.append(card)
    if not any("a" in card for card in cards):
        return None
    return {
        "g": place, "name": first.name, "image": name, "label": class_name(group.classes, first.label),
        "aim": None if first.target_label is None else class_name(group.classes, first.target_label),
        "sure": _short(first.confidence_before), "cards": cards,
    }  # fmt: skip


def _adversarial(store: Store, row: Row, original: Tensor) -> Tensor | None:
    """The adversarial image of a row, None if there is none that can be shown beside the original."""
    if not _has_picture(row):
        return None
    try:
        image = store.adversarial(row)
    except MISSING:
        return None
    return image if image is not None and image.shape == original.shape else None


def _traces(
    store: Store, images: dict[str, dict[int, Row]], names: list[str]
) -> dict[str, dict[int, dict[str, list[float | None]]]]:
    found = {name: {i: thin(store.trace(row.task)) for i, row in images[name].items()} for name in names}
    kept = {name: {i: trace for i, trace in traces.items() if trace} for name, traces in found.items()}
    return {name: traces for name, traces in kept.items() if traces}


def _short(value: float | None) -> float | None:
    return None if value is None or plain(value) is None else float(f"{value:.4g}")
