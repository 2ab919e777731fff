"""Which traces a page carries, and how: thinned, as few bytes as JSON allows, until a budget of bytes is spent."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any

from dowse.store import Row, Store
from dowse.store.traces import Trace
from dowse.wording import rounded

BYTES = 6_000_000  # of all traces of a page
IMAGES = 5000  # of all groups: more are no longer looked at one by one
POINTS, FEWEST = 60, 16  # of a column: at most, and where not all images would have room
Images = Mapping[str, Mapping[int, Row]]  # rows by image and by the method's place
Carried = dict[str, dict[str, dict[int, dict[str, Any]]]]  # by group, image and the method's place


def carry(
    store: Store, groups: Mapping[str, Images], first: Mapping[str, Sequence[str]], most: int = BYTES
) -> tuple[Carried, bool]:
    """The traces of the groups' images, and whether some had no room; `first` names images that come before others.

    Groups take turns, so that each of them gets its share of the room.
    """
    queues = [
        [(place, name) for name in dict.fromkeys([*first.get(place, ()), *images])] for place, images in groups.items()
    ]
    turns = [one for turn in zip_longest(*queues) for one in turn if one is not None]
    points, spent = _points(store, groups, turns, most), 0
    carried: Carried = {place: {} for place in groups}
    for place, name in turns[:IMAGES]:
        found = _of_image(store, groups[place][name], points)
        spent += _size(found)
        if spent > most:
            return carried, True
        if found:
            carried[place][name] = found
    return carried, len(turns) > IMAGES


def thin(trace: Trace, most: int = POINTS) -> dict[str, list[float]]:
    """A trace with every column cut to at most `most` of its values, each with the queries it was noted at.

    A column that says nothing is left out, one that says the same throughout keeps its ends. The result holds two
    lists a name: "name" and "name@", the queries.
    """
    queries = trace.get("queries", [])
    thinned: dict[str, list[float]] = {}
    for name, column in trace.items():
        said = [(q, value) for q, value in zip(queries, column, strict=False) if value is not None and q is not None]
        if name == "queries" or not said:
            continue
        room = min(2, most) if len({value for _, value in said}) == 1 else most
        if len(said) > room:
            said = [said[round(i * (len(said) - 1) / (room - 1))] for i in range(room)]
        thinned[name] = [_short(value) for _, value in said]
        thinned[f"{name}@"] = [q for q, _ in said]
    return thinned


def compact(thinned: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """A thinned trace in fewer bytes: queries as steps, or the name of a column that has the same."""
    seen: dict[tuple[float, ...], str] = {}
    small: dict[str, Any] = {}
    for name, values in thinned.items():
        if not name.endswith("@"):
            small[name] = values
            continue
        at = tuple(values)
        small[name] = seen.get(at) or [at[0], *(b - a for a, b in pairwise(at))]
        seen.setdefault(at, name)
    return small


def _of_image(store: Store, rows: Mapping[int, Row], points: int) -> dict[int, dict[str, Any]]:
    found = {place: compact(thin(store.trace(row.task), points)) for place, row in rows.items()}
    return {place: trace for place, trace in found.items() if trace}


def _points(store: Store, groups: Mapping[str, Images], turns: Sequence[tuple[str, str]], most: int) -> int:
    """How many points a column may have so that all traces have room, by the size of an image of each group."""
    sample = [groups[place][name] for place, name in turns[: len(groups)]]
    traces = sum(len(rows) for images in groups.values() for rows in images.values())
    expected = traces * sum(_size(_of_image(store, rows, POINTS)) for rows in sample) / max(1, sum(map(len, sample)))
    return POINTS if expected <= most else max(FEWEST, int(POINTS * most / expected))


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def _short(value: float) -> float:
    short = rounded(value, 4)
    return int(short) if short == int(short) else short
