"""A store as the runner sees it: tasks are claimed, what happens to them is committed, nothing is done twice."""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from torch import Tensor

from dowse.core.task import Past
from dowse.errors import InputError
from dowse.experiment.spec import PlannedRun
from dowse.images.image_set import Entry
from dowse.store import images
from dowse.store.counted import places
from dowse.store.events import Ended, Event, NewAnswer, Replayed, Reserved, Restarted, Round, Settled
from dowse.store.reader import BESIDE, RunInfo, lock_of, own_labels
from dowse.store.row import GOES_ON
from dowse.store.schema import NUMBER_BITS, PUT_ROW, StoreError, answer_keys, explained, transaction
from dowse.store.session import StoreSession


class StoreWriter(StoreSession):
    """The store of a folder, opened to be written by this process. A task is named by its run and its index.

    Args:
        folder: The folder, made if it is not there.
        command: The command line, kept in the manifest.
        keep_answers: Whether the log of a task stays even when the task can never go on.
    """

    def __init__(self, folder: Path | str, command: Sequence[str] = (), *, keep_answers: bool = False) -> None:
        super().__init__(folder, command)
        self.keep_answers = keep_answers
        self._done_below: dict[tuple[str, int], int] = {}  # by run and budget: no task before is left
        self._given_up: set[int] = set()  # numbers of the tasks whose images this process could not read

    def begin(self, plan: PlannedRun, source: str, entries: Sequence[Entry]) -> tuple[int, int]:
        """A run is to be run so far as its plan says; entries are all images of its set.

        Returns:
            How many places of the set that takes, and how many images in them can be read as far as is known.
        """
        _check_names([source, *(entry.name for entry in entries)])
        run, wanted = plan.spec.id, len(entries) if plan.count is None else plan.count
        with transaction(self._database, self.folder):
            skipped = self._skipped_places(run)
            limit = min(len(entries), places(wanted, skipped))
            self._database.execute(
                """INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
                title = excluded.title, budget = excluded.budget, count = excluded.count, source = excluded.source,
                content = excluded.content""",
                (run, plan.title, self._content(plan, entries), source, plan.budget, limit, time.time()),
            )
            known = "SELECT count(*) FROM tasks WHERE run = ? AND position < ?"
            if self._database.execute(known, (run, limit)).fetchone() != (limit,):
                self._database.executemany(
                    "INSERT OR IGNORE INTO tasks (run, position, name) VALUES (?, ?, ?)",
                    [(run, index, entry.name) for index, entry in enumerate(entries[:limit])],
                )
            self._database.execute(  # a task that ended for good would have ended so with a larger budget too
                f"""UPDATE rows SET budget = ? WHERE budget < ? AND "end" NOT IN ({_marks(GOES_ON)})
                AND task IN (SELECT id FROM tasks WHERE run = ? AND position < ?)""",
                (plan.budget, plan.budget, *GOES_ON, run, limit),
            )
        return limit, limit - sum(index < limit for index in skipped)

    def _content(self, plan: PlannedRun, entries: Sequence[Entry]) -> str:
        """A run's content, and beside it what else a reader should know; a name once given stays until another is.

        What runs its target stays for good: who entered the run first said it.
        """
        known = self.known(plan.spec.id)
        name = plan.target_name or (known and known.target_name)
        first = plan if known is None else known
        beside = {"own_labels": own_labels(plan.spec.image_set) or all(entry.label is None for entry in entries)}
        said = {"target_name": name, "backend": first.backend, "rows_per_pass": first.rows_per_pass}
        return json.dumps(
            {**plan.spec.content(), BESIDE: beside | {key: value for key, value in said.items() if value}}
        )

    def known(self, run: str) -> RunInfo | None:
        """A run that was entered, by this process or another."""
        return next((one for one in self.runs() if one.id == run), None)

    def claim(self, run: str, budget: int, limit: int) -> tuple[int, Past] | None:
        """Take the first task of a run among its first `limit` that is not done and that no living process has.

        A task whose image could not be read is tried again, once by each process: what hindered it may be over.

        Returns:
            Its index, and what earlier attempts left; None if there is none.
        """
        with transaction(self._database, self.folder):
            found = next(self._open_tasks(run, budget, limit), None)
            if found is None:
                return None
            number, index, image, sent, unreadable = found
            self._database.execute("UPDATE tasks SET owner = ? WHERE id = ?", (self.session, number))
            blocks = self._database.execute("SELECT block FROM answers WHERE key BETWEEN ? AND ?", answer_keys(number))
            return index, Past(image, tuple(block for (block,) in blocks), sent, unreadable)

    def claimable(self, run: str, budget: int, limit: int, most: int) -> int:
        """How many tasks `claim` would find now, counted up to `most`."""
        with explained(self.folder):
            return sum(1 for _ in islice(self._open_tasks(run, budget, limit), most))

    def release(self, run: str, indices: Collection[int]) -> None:
        """Claimed tasks are free again, with all that is committed about them."""
        query = f"UPDATE tasks SET owner = NULL WHERE run = ? AND owner = ? AND position IN ({_marks(indices)})"
        with transaction(self._database, self.folder):
            self._database.execute(query, (run, self.session, *indices))

    def held_by_others(self, run: str) -> int:
        """How many tasks of a run other living processes have claimed."""
        with explained(self.folder):
            others = self._living_owners() - {self.session}
            query = f"SELECT count(*) FROM tasks WHERE run = ? AND owner IN ({_marks(others)})"
            (held,) = self._database.execute(query, (run, *others)).fetchone()
        return int(held)

    def skip(self, run: str, index: int, reason: str) -> None:
        """The image of a claimed task cannot be read; another process may try again."""
        with transaction(self._database, self.folder):
            number = self._mine(run, {index})[index]
            self._database.execute("UPDATE tasks SET skipped = ?, owner = NULL WHERE id = ?", (reason, number))
        self._given_up.add(number)

    def enter(self, run: str, index: int, checksum: str, x: Tensor | None) -> None:
        """The image of a claimed task was read; x, (C, H, W), is kept as its original unless None."""
        with explained(self.folder):
            if x is not None:
                images.save_original(self.folder, checksum, x)
        query = "UPDATE tasks SET image = ?, skipped = NULL WHERE run = ? AND position = ?"
        with transaction(self._database, self.folder):
            self._database.execute(query, (checksum, run, index))

    def write(self, run: str, events: Sequence[Event]) -> None:
        """Commit what happened, all of it or nothing; images are on disk before the row that names them."""
        execute = self._database.execute
        with transaction(self._database, self.folder):
            numbers = self._mine(run, {event.index for event in events if not isinstance(event, Round)})
            for event in events:
                match event:
                    case NewAnswer():
                        key, (_, last) = (
                            numbers[event.index] << NUMBER_BITS | event.number,
                            answer_keys(numbers[event.index]),
                        )
                        execute("DELETE FROM answers WHERE key > ? AND key <= ?", (key, last))
                        execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, event.block))
                    case Reserved() | Settled():
                        change = event.rows if isinstance(event, Reserved) else -event.rows
                        execute("UPDATE tasks SET sent = sent + ? WHERE id = ?", (change, numbers[event.index]))
                    case Restarted():
                        number = numbers[event.index]
                        first, last = answer_keys(number)
                        execute("DELETE FROM answers WHERE key BETWEEN ? AND ?", (first + event.first, last))
                        query = "UPDATE tasks SET sent = sent + ?, restarts = restarts + 1 WHERE id = ?"
                        execute(query, (event.sent, number))
                    case Replayed():
                        execute(
                            """UPDATE tasks SET replayed = replayed + ?, inexact = inexact + ?,
                            difference = max(difference, ?) WHERE id = ?""",
                            (event.answers, event.inexact, event.largest, numbers[event.index]),
                        )
                    case Round():
                        execute(
                            "UPDATE sessions SET queries = queries + ?, busy = busy + ?, beat = ? WHERE id = ?",
                            (event.queries, event.busy, time.time(), self.session),
                        )
                    case Ended():
                        self._end(numbers[event.index], event)

    def _end(self, number: int, event: Ended) -> None:
        run, execute, file = event.row.run, self._database.execute, None
        if event.image is not None:
            file = images.save_adversarial(self.folder, run, number, event.image)
        row = replace(event.row, task=number, session=self.session, finished=time.time(), file=file)
        execute(PUT_ROW, row.values())
        execute("INSERT OR REPLACE INTO traces VALUES (?, ?)", (number, event.trace))
        execute("UPDATE tasks SET owner = NULL WHERE id = ?", (number,))
        if event.row.end not in GOES_ON and not self.keep_answers:
            execute("DELETE FROM answers WHERE key BETWEEN ? AND ?", answer_keys(number))

    def _open_tasks(self, run: str, budget: int, limit: int) -> Iterator[tuple[int, int, str | None, int, str | None]]:
        """Number, index, image, rows sent without an answer, why it was skipped: of each task that can be claimed."""
        query = """
            SELECT tasks.id, position, image, tasks.sent, skipped, owner FROM tasks LEFT JOIN rows ON task = tasks.id
            WHERE run = ? AND position >= ? AND position < ? AND (
                task IS NULL OR "end" = 'budget' AND budget < ? OR "end" = 'target_failed' AND session != ?
            ) ORDER BY position"""
        living, first = self._living_owners(), True
        start = self._done_below.get((run, budget), 0)
        for number, index, *known, owner in self._database.execute(query, (run, start, limit, budget, self.session)):
            if number in self._given_up:
                continue
            if first:
                self._done_below[run, budget], first = index, False
            if owner not in living:
                yield number, index, *known

    def _mine(self, run: str, indices: Collection[int]) -> dict[int, int]:
        """The numbers of tasks by index; a StoreError if another process has taken one over that this one attacks."""
        query = f"SELECT position, id FROM tasks WHERE run = ? AND owner = ? AND position IN ({_marks(indices)})"
        mine = dict(self._database.execute(query, (run, self.session, *indices)))
        if len(mine) != len(indices):
            raise StoreError(
                f"another process has taken over images of this run in {self.folder}, because it found no lock of this "
                f"one's ({lock_of(self.folder, self.session).name}); nothing of theirs was overwritten. Give the same "
                "command again, and leave the locks alone"
            )
        return mine


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


def _marks(values: Collection[object]) -> str:
    """The marks that stand for values in a statement."""
    return ", ".join("?" * len(values))
