"""Traces: the loss at each iterate and the notes an attack leaves, against the queries spent; for figures."""

import json
import math
import zlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from dowse.core.conversation import Accept, Task
from dowse.core.flow import Query
from dowse.core.observers import Observer
from dowse.core.reply import Reply

Trace = dict[str, list[float | None]]
"""Columns of equal length: "queries", "loss", and each name that was noted; None where nothing was said."""


class Tracer(Observer):
    """Collects the traces of the images under attack."""

    def __init__(self) -> None:
        self.predicted: dict[int, int | None] = {}
        self.confidence: dict[int, tuple[float, float]] = {}
        self._queries: dict[int, int] = defaultdict(int)
        self._points: dict[int, list[dict[str, float]]] = defaultdict(list)

    def noted(self, task: Task, values: Mapping[str, float]) -> None:
        """Keep a note."""
        self._points[task.index].append({"queries": self._queries[task.index], **values})

    def answered(self, task: Task, query: Query, reply: Reply) -> None:
        """Keep the loss of an iterate, and what the target takes it for, how surely now and at first."""
        self._queries[task.index] += reply.answered
        if reply.answer is None:
            return
        if query.candidate or (task.accept is Accept.ANY and reply.answer.adversarial.any()):
            sure = float(f"{reply.confidence:.6g}")
            self.predicted[task.index] = reply.predicted
            self.confidence[task.index] = (self.confidence.get(task.index, (sure,))[0], sure)
        if query.candidate:
            loss = float(reply.answer.loss[-1])
            self._points[task.index].append({"queries": self._queries[task.index], "loss": loss})

    def forget(self, task: int) -> None:
        """An image starts anew, or has ended."""
        for kept in (self.predicted, self.confidence, self._queries, self._points):
            kept.pop(task, None)

    def pack(self, task: int) -> bytes:
        """The trace of an image so far."""
        return pack(self._points[task])


def pack(points: list[dict[str, float]]) -> bytes:
    """Points as columns of compressed JSON, to six digits."""
    names = list(dict.fromkeys(name for point in points for name in point))
    columns = {name: [_short(point.get(name)) for point in points] for name in names}
    return zlib.compress(json.dumps(columns, separators=(",", ":")).encode(), level=6)


def unpack(block: bytes) -> Trace:
    """What `pack` packed."""
    trace: Any = json.loads(zlib.decompress(block))
    return dict(trace)


def _short(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")
