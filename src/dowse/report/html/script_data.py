"""What the page's script draws from: curves, pairs, rows, pictures and traces as compact JSON values."""

import math
from collections.abc import Sequence
from typing import Any

from dowse.core.outcome import End
from dowse.images.class_names import class_name
from dowse.report.data.model import Group, Report, Table, TableEntry
from dowse.report.data.names import captions, short_captions
from dowse.report.data.statistics import Interval, Point
from dowse.report.html.gallery import Gallery
from dowse.wording import rounded

ENDS = list(End)
INFINITE = -1  # a number of queries that is infinite; JSON has no word for it


def script_data(report: Report, gallery: Gallery) -> dict[str, Any]:
    """The values of the script; `assets/*.js` say what each is for."""
    said, shorts = captions(report.tables), short_captions(report.tables)
    methods = {method: m for m, method in enumerate(report.methods)}
    return {
        "methods": report.methods,
        "tables": [
            {
                "caption": said[t], "short": shorts[t], "budget": table.budget, "norm": table.norm,
                "methods": [methods[method] for method in table.methods],
                "groups": [_group(table, group, methods, gallery, f"{t}.{g}") for g, group in enumerate(table.groups)],
            }
            for t, table in enumerate(report.tables)
        ],
        "ends": [[str(end), end.sentence] for end in ENDS],
        "pictures": gallery.pictures,
        "strips": gallery.strips,
    }  # fmt: skip


def _group(table: Table, group: Group, methods: dict[str, int], gallery: Gallery, place: str) -> dict[str, Any]:
    names: dict[str, tuple[int, str, int | None]] = {}
    for entry in group.entries:
        for row in entry.counted.rows:
            names.setdefault(row.checksum, (row.position, row.name, row.label))
    order = sorted(names, key=lambda key: names[key][0])
    index = {key: i for i, key in enumerate(order)}
    labels = sorted({row.predicted for e in group.entries for row in e.counted.rows if row.predicted is not None})
    return {
        "id": place,
        "name": group.name,
        "images": [[names[key][1], class_name(group.classes, names[key][2])] for key in order],
        "classes": {str(label): class_name(group.classes, label) for label in labels},
        "entries": [_entry(table, entry, methods, index) for entry in group.entries],
        "pairs": [
            [i, j, p.n, p.wins, p.losses, _number(p.mean_difference), rounded(p.sign_p, 3), rounded(p.wilcoxon_p, 3),
             _sign(p.rank_sum)]
            for (i, j), p in group.pairs().items()
        ],
        "traces": {str(index[key]): traces for key, traces in gallery.traces.get(place, {}).items() if key in index},
    }  # fmt: skip


def _entry(table: Table, entry: TableEntry, methods: dict[str, int], index: dict[str, int]) -> dict[str, Any]:
    numbers, summary = entry.numbers, entry.numbers.summary
    rows = sorted(entry.counted.rows, key=lambda row: index[row.checksum])
    return {
        "m": methods[entry.method],
        "n": summary.n,
        "ok": summary.successes,
        "median": _triple(summary.median_queries, numbers.median_interval),
        "asr": _triple(summary.asr, numbers.asr_interval),
        "curve": curve_data(numbers.curve),
        "rows": [
            [index[r.checksum] for r in rows],
            [r.queries for r in rows],
            [ENDS.index(r.end) for r in rows],
            [r.predicted for r in rows],
            [_number(r.l2 if table.norm == "l2" else r.linf) for r in rows],
        ],
    }


def curve_data(curve: Sequence[Point]) -> list[list[float]]:
    """A curve as the script draws it: queries, share, and the ends of its interval, a point each."""
    return [[p.queries, round(p.rate, 4), round(p.low, 4), round(p.high, 4)] for p in curve]


def _triple(value: float, interval: Interval) -> list[float | None]:
    return [_number(value), *map(_number, interval)]


def _number(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return INFINITE if math.isinf(value) else rounded(value, 5)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
