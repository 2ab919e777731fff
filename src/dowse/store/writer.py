"""A store as the runner sees it: images are claimed, what happens to them is committed, nothing is done twice."""

import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from dowse.core.result import End
from dowse.errors import InputError
from dowse.experiment.spec import PlannedRun
from dowse.images.image_set import Entry
from dowse.store import images
from dowse.store.counted import places
from dowse.store.events import Answered, Ended, Event, Replayed, Restarted, Round
from dowse.store.schema import NUMBER_BITS, StoreError, explained, transaction
from dowse.store.session import StoreSession

GOES_ON = (End.BUDGET, End.TARGET_FAILED)  # an image that ended so can go on: its answers stay in the log


@dataclass(frozen=True)
class Claim:
    """An image that this process, and no other, attacks now.

    Attributes:
        task: Its number.
        position: Its place in the image set.
        checksum: Of its pixels and label when it was first read; None if it never was.
        answers: Its log.
        sent: Rows handed to the target for answers that are void.
        skipped: Whether it could not be read when it was last tried.
    """

    task: int
    position: int
    checksum: str | None
    answers: tuple[bytes, ...]
    sent: int
    skipped: bool


class StoreWriter(StoreSession):
    """The store of a folder, opened to be written by this process.

    Args:
        folder: The folder, made if it is not there.
        command: The command line, kept in the manifest.
        keep_answers: Whether the log of an image stays even when the image can never go on.
    """

    def __init__(self, folder: Path | str, command: Sequence[str] = (), *, keep_answers: bool = False) -> None:
        super().__init__(folder, command)
        self.keep_answers = keep_answers
        self._done_below: dict[tuple[str, int], int] = {}  # by run and budget: no image before is left
        self._given_up: set[int] = set()  # tasks whose images this process could not read

    def begin(self, plan: PlannedRun, source: str, entries: Sequence[Entry]) -> tuple[int, int]:
        """A run is to be run so far as its plan says; entries are all images of its set.

        Returns:
            How many places of the set that takes, and how many images in them can be read as far as is known.
        """
        _check_names([source, *(entry.name for entry in entries)])
        content, wanted = json.dumps(plan.spec.content()), len(entries) if plan.count is None else plan.count
        with transaction(self._database, self.folder):
            skipped = self._skipped_places(plan.spec.id)
            limit = min(len(entries), places(wanted, skipped))
            self._database.execute(
                """INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
                title = excluded.title, budget = excluded.budget, count = excluded.count, source = excluded.source""",
                (plan.spec.id, plan.title, content, source, plan.budget, limit, time.time()),
            )
            self._database.executemany(
                "INSERT OR IGNORE INTO tasks (run, position, name) VALUES (?, ?, ?)",
                [(plan.spec.id, position, entry.name) for position, entry in enumerate(entries[:limit])],
            )
            self._database.execute(  # an image that ended for good would have ended so with a larger budget too
                f"""UPDATE rows SET budget = ? WHERE budget < ? AND "end" NOT IN ({_places(GOES_ON)})
                AND task IN (SELECT id FROM tasks WHERE run = ? AND position < ?)""",
                (plan.budget, plan.budget, *GOES_ON, plan.spec.id, limit),
            )
        return limit, limit - sum(position < limit for position in skipped)

    def claim(self, plan: PlannedRun, limit: int) -> Claim | None:
        """Take the next image in the first `limit` places that is not done and that no living process has.

        An image that could not be read is tried again, once by each process: what hindered it may be over.
        """
        query = """
            SELECT tasks.id, position, image, tasks.sent, skipped, owner FROM tasks LEFT JOIN rows ON task = tasks.id
            WHERE run = ? AND position >= ? AND position < ? AND (
                task IS NULL OR "end" = 'budget' AND budget < ? OR "end" = 'target_failed' AND session != ?
            ) ORDER BY position"""
        run, start = plan.spec.id, self._done_below.get((plan.spec.id, plan.budget), 0)
        with transaction(self._database, self.folder):
            living = set(self._living_owners())
            left = self._database.execute(query, (run, start, limit, plan.budget, self.session))
            hopeful = (one for one in left if one[0] not in self._given_up)
            for number, (task, position, checksum, sent, skipped, owner) in enumerate(hopeful):
                if number == 0:
                    self._done_below[run, plan.budget] = position
                if owner not in living:
                    left.close()
                    self._database.execute("UPDATE tasks SET owner = ? WHERE id = ?", (self.session, task))
                    blocks = self._database.execute("SELECT block FROM answers WHERE key BETWEEN ? AND ?", _keys(task))
                    answers = tuple(block for (block,) in blocks)
                    return Claim(task, position, checksum, answers, sent, skipped is not None)
        return None

    def held_by_others(self, run: str) -> int:
        """How many images of a run other living processes attack now."""
        with explained(self.folder):
            others = [owner for owner in self._living_owners() if owner != self.session]
            query = f"SELECT count(*) FROM tasks WHERE run = ? AND owner IN ({_places(others)})"
            (held,) = self._database.execute(query, (run, *others)).fetchone()
        return int(held)

    def skip(self, task: int, reason: str) -> None:
        """A claimed image cannot be read; another process may try again."""
        self._given_up.add(task)
        with transaction(self._database, self.folder):
            self._database.execute("UPDATE tasks SET skipped = ?, owner = NULL WHERE id = ?", (reason, task))

    def enter(self, task: int, checksum: str, x: Tensor | None) -> None:
        """A claimed image was read, and is about to be attacked; x, (C, H, W), is kept as its original unless None."""
        with explained(self.folder):
            if x is not None:
                images.save_original(self.folder, checksum, x)
        with transaction(self._database, self.folder):
            self._database.execute("UPDATE tasks SET image = ?, skipped = NULL WHERE id = ?", (checksum, task))

    def void(self, task: int, sent: int) -> None:
        """Forget the log of a claimed image, for which `sent` rows had been handed over."""
        with transaction(self._database, self.folder):
            self._void(task, sent)

    def write(self, plan: PlannedRun, events: Sequence[Event]) -> None:
        """Commit what happened, all of it or nothing; images are on disk before the row that names them."""
        with transaction(self._database, self.folder):
            self._check_mine({event.task for event in events if not isinstance(event, Round)})
            for event in events:
                match event:
                    case Answered():
                        self._log(event)
                    case Restarted():
                        self._void(event.task, event.sent)
                    case Replayed():
                        self._database.execute(
                            """UPDATE tasks SET replayed = replayed + ?, inexact = inexact + ?,
                            difference = max(difference, ?) WHERE id = ?""",
                            (event.answers, event.inexact, event.largest, event.task),
                        )
                    case Round():
                        self._database.execute(
                            "UPDATE sessions SET queries = queries + ?, busy = busy + ? WHERE id = ?",
                            (event.queries, event.busy, self.session),
                        )
                    case Ended():
                        self._end(plan, event, self._save(plan, event))

    def _log(self, event: Answered) -> None:
        key, (_, last) = event.task << NUMBER_BITS | event.number, _keys(event.task)
        self._database.execute("DELETE FROM answers WHERE key > ? AND key <= ?", (key, last))
        self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, event.block))

    def _void(self, task: int, sent: int) -> None:
        self._database.execute("DELETE FROM answers WHERE key BETWEEN ? AND ?", _keys(task))
        self._database.execute("UPDATE tasks SET sent = sent + ?, restarts = restarts + 1 WHERE id = ?", (sent, task))

    def _end(self, plan: PlannedRun, event: Ended, file: str | None) -> None:
        saved, execute = event.saved, self._database.execute
        (checksum,) = execute("SELECT image FROM tasks WHERE id = ?", (event.task,)).fetchone()
        row = {
            "task": event.task, "session": self.session, "finished": time.time(), "end": str(event.end),
            "queries": event.queries, "sent": event.sent, "budget": event.budget, "label": event.label,
            "target_label": event.target_label, "predicted": event.predicted,
            "confidence": event.confidence, "confidence_before": event.confidence_before, "l2": event.l2,
            "linf": event.linf,
            "loss": event.loss, "seconds": event.seconds, "seed": plan.spec.seed, "checksum": checksum,
            "cause": event.cause, "file": file,
            "verified": event.verified,
        }  # fmt: skip
        if saved is not None:
            row |= {
                "saved_adversarial": saved.adversarial, "saved_inside": saved.inside,
                "saved_distance": saved.distance, "saved_queries": saved.queries,
            }  # fmt: skip
        names = ", ".join(f'"{name}"' for name in row)
        execute(f"INSERT OR REPLACE INTO rows ({names}) VALUES ({_places(row)})", tuple(row.values()))
        execute("INSERT OR REPLACE INTO traces VALUES (?, ?)", (event.task, event.trace))
        execute("UPDATE tasks SET owner = NULL WHERE id = ?", (event.task,))
        if event.end not in GOES_ON and not self.keep_answers:
            execute("DELETE FROM answers WHERE key BETWEEN ? AND ?", _keys(event.task))

    def _save(self, plan: PlannedRun, event: Ended) -> str | None:
        """Put the adversarial image on disk; where it is."""
        if event.saved is not None:
            return images.save_picture(self.folder, plan.spec.id, event.task, event.saved.levels)
        if event.adversarial is not None:
            return images.save_adversarial(self.folder, plan.spec.id, event.task, event.adversarial)
        return None

    def _check_mine(self, tasks: set[int]) -> None:
        """Raise StoreError if another process has taken over an image that this one still attacks."""
        query = f"SELECT count(*) FROM tasks WHERE owner = ? AND id IN ({_places(tasks)})"
        (mine,) = self._database.execute(query, (self.session, *tasks)).fetchone()
        if mine != len(tasks):
            raise StoreError(
                f"another process has taken over images of this run in {self.folder}, because this one showed no sign "
                "of life; nothing of theirs was overwritten. Start one process a machine again."
            )


def _check_names(names: Iterable[str]) -> None:
    """Raise InputError for a name that the store cannot keep: one whose bytes are no UTF-8."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"the name {name!a} holds bytes that are no UTF-8, which a store cannot keep: give the file or "
                "folder another name"
            ) from None


def _keys(task: int) -> tuple[int, int]:
    """The first and the last key of a task's answers."""
    return task << NUMBER_BITS, (task + 1 << NUMBER_BITS) - 1


def _places(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
