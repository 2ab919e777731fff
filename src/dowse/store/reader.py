"""A store as those see it who only read: runs, rows, traces, images, and who is at work."""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dowse.machine.locks import is_held
from dowse.maths.radius import paper_radius
from dowse.store import images, traces
from dowse.store.answer_header import HEADER, sent_for
from dowse.store.counted import Counted, count_rows
from dowse.store.row import OF_THE_TASK, Row
from dowse.store.schema import NUMBER_BITS, connect, explained

if TYPE_CHECKING:  # whoever looks at no image does without torch, which takes seconds to import
    from torch import Tensor

BESIDE = "beside"  # in the stored content, what is no part of a run's id: its fields of RunInfo


@dataclass(frozen=True)
class RunInfo:
    """A run of a store.

    Attributes:
        id: The hash of its content.
        title: What its method is called in tables.
        content: Its spec: target, surrogate, image_set, method, options, norm, eps, …
        source: The path of its image set.
        budget: The budget it was last asked to run with.
        count: How many images it was last asked to run, of those that can be read.
        skipped: Images that could not be read, and why.
        target_name: What its target is called, if it was given a name.
        backend: What runs its target, "torch" or "onnxruntime"; None where nobody chose, which is torch for networks.
        rows_per_pass: The most rows of a pass of its target, where that was tried.
        own_labels: Whether its images had no labels, so that each was attacked as what the target took it for.
    """

    id: str
    title: str
    content: dict[str, Any]
    source: str
    budget: int
    count: int
    skipped: dict[str, str]
    target_name: str | None = None
    backend: str | None = None
    rows_per_pass: int | None = None
    own_labels: bool = False


@dataclass(frozen=True)
class SessionInfo:
    """A process that wrote to the store.

    Attributes:
        id: Its number.
        started: When, in seconds since 1970.
        ended: When; None if it still runs or was killed.
        beat: When it last committed something.
        command: Its command line.
        versions: What it ran on.
        alive: Whether it still runs.
        queries: Queries answered to it.
        busy: Seconds its target worked.
        holds: Tasks it has claimed.
    """

    id: int
    started: float
    ended: float | None
    beat: float
    command: list[str]
    versions: dict[str, str]
    alive: bool
    queries: int
    busy: float
    holds: int


class Store:
    """The store of a folder, opened to be read; close it, or use it in a with statement.

    A file that `dowse pack` wrote can be read like a folder: it has no images, answers and traces.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._database = self._connect()

    def _connect(self) -> sqlite3.Connection:
        if self.folder.is_file():
            from dowse.store.pack import opened_in_memory  # here: it knows this module

            return opened_in_memory(self.folder)
        return connect(self.folder, writable=False)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def runs(self) -> list[RunInfo]:
        """All runs, the oldest first."""
        query = """SELECT *, (SELECT count(*) FROM tasks WHERE run = runs.id AND position < runs.count
            AND skipped IS NOT NULL) AS unreadable FROM runs ORDER BY created, rowid"""
        found = [(run, json.loads(run["content"])) for run in self.select(query)]
        return [
            RunInfo(
                **{"own_labels": own_labels(content["image_set"]), **content.pop(BESIDE, {})},
                **{name: run[name] for name in ("id", "title", "source", "budget")},
                content=content,
                count=run["count"] - run["unreadable"],
                skipped=self.skipped(run["id"]),
            )
            for run, content in found
        ]

    def skipped(self, run: str, limit: int | None = None) -> dict[str, str]:
        """The images of a run that could not be read, and why; with a limit, those among the first so many places."""
        query = """SELECT position, name, skipped FROM tasks WHERE run = ? AND skipped IS NOT NULL ORDER BY position"""
        found = self.select(query, run)
        return {row["name"]: row["skipped"] for row in found if limit is None or row["position"] < limit}

    def counted(self, run: str, budget: int, count: int) -> Counted:
        """The rows of a run that count if `count` images are asked for with a budget, and how many are not done."""
        return count_rows(self.rows(run), budget, count, self._skipped_places(run))

    def rows(self, run: str | None = None) -> Iterator[Row]:
        """The rows of one run or of all, in the order of runs and images."""
        of_the_task = ", ".join(f"tasks.{name}" for name in OF_THE_TASK)
        chosen = "" if run is None else "WHERE tasks.run = ?"
        query = f"""SELECT {of_the_task}, rows.* FROM rows JOIN tasks ON tasks.id = task
            JOIN runs ON runs.id = tasks.run {chosen} ORDER BY runs.created, runs.rowid, position"""
        for row in self.select(query, *([] if run is None else [run])):
            yield Row.of(dict(row))

    def sessions(self) -> list[SessionInfo]:
        """Every process that ever wrote here, the oldest first: commands, versions, and who is alive."""
        query = """SELECT sessions.*, (SELECT count(*) FROM tasks WHERE owner = sessions.id) AS holds
            FROM sessions ORDER BY id"""
        return [
            SessionInfo(
                **{name: one[name] for name in ("id", "started", "ended", "beat", "queries", "busy", "holds")},
                command=json.loads(one["command"]),
                versions=json.loads(one["versions"]),
                alive=one["ended"] is None and is_held(lock_of(self.folder, one["id"])),
            )
            for one in self.select(query)
        ]

    def logged(self, run: str) -> tuple[int, int]:
        """How many answers are logged for a run, and how many bytes they take."""
        query = f"""SELECT count(*) AS n, total(length(block)) AS bytes FROM tasks CROSS JOIN answers
            ON key BETWEEN id << {NUMBER_BITS} AND (id + 1 << {NUMBER_BITS}) - 1 WHERE run = ?"""
        (found,) = self.select(query, run)
        return found["n"], int(found["bytes"])

    def sent(self, run: str) -> int:
        """Rows handed to the target for a run, for tasks that did not end too: never less than it received."""
        query = f"""SELECT id, tasks.sent AS unanswered, rows.sent AS told, substr(block, 1, {HEADER.size}) AS head
            FROM tasks LEFT JOIN rows ON task = id
            LEFT JOIN answers ON key BETWEEN id << {NUMBER_BITS} AND (id + 1 << {NUMBER_BITS}) - 1 WHERE run = ?"""
        told: dict[int, int] = {}
        counted: Counter[int] = Counter()
        for one in self.select(query, run):
            if one["id"] not in told:
                told[one["id"]] = one["told"] or 0
                counted[one["id"]] = one["unanswered"]
            counted[one["id"]] += 0 if one["head"] is None else sent_for(one["head"])
        return sum(max(rows, counted[task]) for task, rows in told.items())

    def replays(self, run: str) -> dict[str, float]:
        """What resuming a run took: answers replayed, those that were inexact, the largest difference, restarts."""
        query = """SELECT total(replayed) AS replayed, total(inexact) AS inexact, max(difference) AS largest,
            total(restarts) AS restarts FROM tasks WHERE run = ?"""
        (found,) = self.select(query, run)
        return {name: float(found[name] or 0) for name in ("replayed", "inexact", "largest", "restarts")}

    def trace(self, task: int) -> traces.Trace:
        """The trace of an image, by columns; empty if there is none."""
        found = self.select("SELECT block FROM traces WHERE task = ?", task)
        return traces.unpack(found[0]["block"]) if found else {}

    def dimension(self, row: Row) -> int:
        """How many numbers the original of a row has, from its file's header; OSError if it is not there or damaged."""
        return images.tensor_size(images.original_of(self.folder, row.checksum))

    def radius(self, content: Mapping[str, Any], rows: Iterable[Row]) -> float:
        """The radius of a run's ball; where none was named it may depend on the images' dimension, which an original
        of these rows tells. NaN if none of them does."""
        norm, eps = content["norm"], content["eps"]
        if eps is not None or norm != "l2":
            return paper_radius(norm, 1) if eps is None else float(eps)
        for row in rows:
            with suppress(OSError):
                return paper_radius(norm, self.dimension(row))
        return math.nan

    def original(self, row: Row) -> "Tensor":
        """The original of a row, (C, H, W) in [0, 1]."""
        return images.load_image(images.original_of(self.folder, row.checksum))

    def adversarial(self, row: Row) -> "Tensor | None":
        """The adversarial image of a row, (C, H, W) in [0, 1], None if none was found or saved."""
        return None if row.file is None else images.load_image(self.folder / row.file)

    def _skipped_places(self, run: str) -> set[int]:
        """The places of the images of a run that could not be read."""
        found = self.select("SELECT position FROM tasks WHERE run = ? AND skipped IS NOT NULL", run)
        return {row["position"] for row in found}

    @contextmanager
    def moment(self) -> Iterator[None]:
        """What is read meanwhile is all as one moment has it, whoever writes."""
        with explained(self.folder):
            begun = not self._database.in_transaction
            if begun:
                self._database.execute("BEGIN")
            try:
                yield
            finally:
                if begun:
                    self._database.execute("COMMIT")

    def select(self, query: str, *values: object) -> list[sqlite3.Row]:
        """What a query finds in the database."""
        with explained(self.folder):
            cursor = self._database.cursor()
            cursor.row_factory = sqlite3.Row
            return list(cursor.execute(query, values))


def own_labels(image_set: str) -> bool:
    """Whether a fingerprint says that the target's own labels were asked for; all that stores of 0.1.0 know of it."""
    return image_set.partition("@")[0].endswith("-target")


def lock_of(folder: Path, session: int | str) -> Path:
    """The file that a session holds a lock of while it lives."""
    return folder / f"session-{session}.lock"
