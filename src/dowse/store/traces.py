"""Traces as a store keeps them: the loss at each iterate and the notes of an attack, against the queries spent."""

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from dowse.wording import short

DIGITS = 6
Trace = dict[str, list[float | None]]
"""Columns of equal length: "queries", "loss", and each name that was noted; None where nothing was said."""


def pack(points: Sequence[Mapping[str, float]]) -> bytes:
    """Points as columns of compressed JSON."""
    names = list(dict.fromkeys(name for point in points for name in point))
    columns = {name: [short(point.get(name), DIGITS) for point in points] for name in names}
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), level=6)


def unpack(block: bytes) -> Trace:
    """What `pack` packed."""
    trace: Any = json.loads(zlib.decompress(block))
    return dict(trace)
