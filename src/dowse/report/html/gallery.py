"""Which images a page shows, and what it shows of them: pictures, labels, distances; and which traces it carries."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dowse.images.class_names import class_name
from dowse.report.data.model import Group, Report
from dowse.report.html.traces import Carried, carry
from dowse.store import Row, Store
from dowse.store.images import original_of, read_pixels
from dowse.wording import short

if TYPE_CHECKING:  # a page without pictures does without the libraries that read them
    from dowse.report.html.thumbnails import Pixels

A_RUN, IN_ALL = 24, 200  # adversarial images shown by default
MISSING = (OSError, ValueError, RuntimeError)  # an image file that is gone or cannot be read


@dataclass
class Gallery:
    """What a page shows of images, each picture once.

    Attributes:
        pictures: data: addresses by name.
        strips: One an image of a group: the original and what each method made of it.
        traces: By group "table.group", image and method, thinned and compact.
        limited: Whether there are more adversarial images than are shown.
        partial: Whether there are more traces than are carried.
    """

    pictures: dict[str, str] = field(default_factory=dict)
    strips: list[dict[str, Any]] = field(default_factory=list)
    traces: Carried = field(default_factory=dict)
    limited: bool = False
    partial: bool = False


def collect(report: Report, store: Store, *, a_run: int | None = None, traces: bool = True) -> Gallery:
    """The gallery of a report, with or without traces; `a_run` images of each run, by default 24, fewer where that
    makes more than 200."""
    runs = len(report.entries)
    wanted = min(A_RUN, max(1, IN_ALL // max(runs, 1))) if a_run is None else a_run
    gallery = Gallery()
    images = {place: _images(group) for place, group in _groups(report)}
    shown = {place: _chosen(found, wanted) for place, found in images.items()}
    for place, group in _groups(report):
        gallery.limited |= _pictures(images[place].values()) > _pictures(images[place][name] for name in shown[place])
        for name in shown[place]:
            strip = _strip(gallery, store, place, group, name, images[place][name])
            if strip is not None:
                gallery.strips.append(strip)
    if traces:
        gallery.traces, gallery.partial = carry(store, images, shown)
    return gallery


def _groups(report: Report) -> list[tuple[str, Group]]:
    return [(f"{t}.{g}", group) for t, table in enumerate(report.tables) for g, group in enumerate(table.groups)]


def _images(group: Group) -> dict[str, dict[int, Row]]:
    """The rows of a group by image and by the method's place, in the order of the image set."""
    images: dict[str, dict[int, Row]] = {}
    for i, entry in enumerate(group.entries):
        for row in entry.counted.attacked:
            images.setdefault(row.checksum, {})[i] = row
    return dict(sorted(images.items(), key=lambda item: _first(item[1]).position))


def _chosen(images: dict[str, dict[int, Row]], wanted: int) -> list[str]:
    """The images with the most pictures; among those with equally many, spread over the set; in its order."""
    counts = {name: sum(_has_picture(row) for row in rows.values()) for name, rows in images.items()}
    chosen: list[str] = []
    for count in sorted(set(counts.values()) - {0}, reverse=True):
        names, room = [name for name in images if counts[name] == count], wanted - len(chosen)
        if room <= 0:
            break
        step = max(1.0, len(names) / room)
        chosen += [names[int(i * step)] for i in range(min(room, len(names)))]
    return sorted(chosen, key=lambda name: _first(images[name]).position)


def _first(rows: dict[int, Row]) -> Row:
    return next(iter(rows.values()))


def _pictures(images: Iterable[dict[int, Row]]) -> int:
    return sum(_has_picture(row) for rows in images for row in rows.values())


def _has_picture(row: Row) -> bool:
    return row.success and row.file is not None


def _strip(
    gallery: Gallery, store: Store, place: str, group: Group, name: str, rows: dict[int, Row]
) -> dict[str, Any] | None:
    """One image and what every method made of it; None if none of the pictures can be read."""
    from dowse.report.html.thumbnails import data_address, magnified, round_factor

    first = _first(rows)
    try:
        original = read_pixels(original_of(store.folder, first.checksum))
    except MISSING:
        return None
    gallery.pictures.setdefault(name, data_address(original))
    found = {method: _adversarial(store, row, original) for method, row in rows.items()}
    added = [image - original for image in found.values() if image is not None]
    factor = min((round_factor([δ]) for δ in added), default=1.0)
    cards = []
    for method, row in rows.items():
        card = {
            "m": method, "q": row.queries, "ok": row.success, "l2": short(row.l2, 4), "linf": short(row.linf, 4),
            "to": class_name(group.classes, row.predicted), "sure": short(row.confidence, 4), "end": row.end.sentence,
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
        "sure": short(first.confidence_before, 4), "cards": cards,
    }  # fmt: skip


def _adversarial(store: Store, row: Row, original: "Pixels") -> "Pixels | None":
    """The adversarial image of a row, None if there is none that can be shown beside the original."""
    if row.file is None or not row.success:
        return None
    try:
        image = read_pixels(store.folder / row.file)
    except MISSING:
        return None
    return image if image.shape == original.shape else None
