"""A store becomes plain data, and plain data a store: what `dowse pack` and `dowse unpack` do."""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from dowse.store.packed import Packed, PackedRun, PackedSession, plain_row, plain_session, without_folders
from dowse.store.packed_file import read_packed, write_packed
from dowse.store.reader import BESIDE, Store
from dowse.store.row import GOES_ON, Row
from dowse.store.schema import FILE, PUT_ROW, answer_keys, in_memory, transaction
from dowse.store.session import StoreSession


@dataclass(frozen=True)
class Written:
    """What became of a file or a folder: the runs and rows it has now, rows that are new, rows that were left out
    because another process attacks their images now."""

    runs: int
    rows: int
    new: int
    held: int = 0


def pack(folder: Path, file: Path) -> Written:
    """Write what a store has found into a file; the rows that are in the file stay, titles become the store's.

    Args:
        folder: The store's, or another packed file.
        file: Where it goes. It is not touched if it has all of it already.
    """
    with Store(folder) as store:
        found = packed_of(store)
    before = read_packed(file) if file.is_file() else None
    whole = found if before is None else before.joined(found).called_like(found)
    if before is None or not whole.same(before):
        write_packed(file, whole)
    return Written(len(whole.runs), whole.count, _new(whole, before or Packed("")))


def unpack(files: Sequence[Path], folder: Path, command: Sequence[str] = ()) -> Written:
    """Add what files hold to the store of a folder, made if it is not there: all of it or nothing.

    Args:
        files: What `pack` wrote.
        folder: The store's. It is not touched if it has all of it already.
        command: The command line, for the manifest.
    """
    given = reduce(Packed.joined, map(read_packed, files))
    if (folder / FILE).exists():
        with Store(folder) as store:
            there = packed_of(store)
        if there.joined(given).same(there):
            return Written(len(there.runs), there.count, 0)
    with _Receiver(folder, command) as receiver:
        return receiver.add(given)


def packed_of(store: Store) -> Packed:
    """What a store has found, as one moment has it: runs, rows, and the processes that wrote them or asked."""
    with store.moment():
        known = {one.id: plain_session(vars(one)) for one in store.sessions()}
        keys = {number: session.key for number, session in known.items()}
        runs = {run.id: run for run in map(_run, store.select("SELECT * FROM runs ORDER BY created, rowid"))}
        for one in store.select("SELECT run, position, name, skipped FROM tasks WHERE skipped IS NOT NULL"):
            runs[one["run"]].skipped[one["position"]] = one["name"], one["skipped"]
        wrote = set()
        for row in store.rows():
            run = runs[row.run]
            run.skipped.pop(row.position, None)
            run.rows[row.position], run.wrote[row.position] = plain_row(row), keys[row.session]
            wrote.add(row.session)
    asked = [number for number, session in known.items() if session.queries or number in wrote]
    return Packed(str(store.folder), runs, {keys[number]: known[number] for number in asked})


def opened_in_memory(file: Path) -> sqlite3.Connection:
    """A packed file as the database of a store that nobody can write."""
    packed, database = read_packed(file), in_memory()
    _insert(database, packed, Packed(""), frozenset())
    database.execute("PRAGMA query_only = ON")
    return database


class _Receiver(StoreSession):
    """A store that is given what a packed one holds."""

    def add(self, given: Packed) -> Written:
        """Take all of it in, but for tasks that a living process has."""
        with transaction(self._database, self.folder):
            there = packed_of(self)
            whole = there.joined(given)
            held = _insert(self._database, whole, there, self._living_owners())
        return Written(len(whole.runs), whole.count - held, _new(whole, there) - held, held)


def _run(values: sqlite3.Row) -> PackedRun:
    content = json.loads(values["content"])
    return PackedRun(
        id=values["id"],
        title=values["title"],
        beside=content.pop(BESIDE, None),
        content=content,
        source=without_folders(values["source"]),
        budget=values["budget"],
        count=values["count"],
        created=values["created"],
    )


def _new(whole: Packed, before: Packed) -> int:
    """How many rows were not there before, or not as they are now."""
    known = {run.id: run.rows for run in before.runs.values()}
    return sum(
        row != known.get(run.id, {}).get(place) for run in whole.runs.values() for place, row in run.rows.items()
    )


def _insert(database: sqlite3.Connection, whole: Packed, there: Packed, living: Collection[int]) -> int:
    """Bring a database from what is there to the whole; the number of rows left out, whose tasks the living have."""
    numbers = _insert_sessions(database, whole.sessions, there.sessions)
    held = 0
    for run in sorted(whole.runs.values(), key=lambda one: one.created):
        known = there.runs.get(run.id)
        if known == run:
            continue
        content = json.dumps(run.content if run.beside is None else {**run.content, BESIDE: run.beside})
        database.execute(
            """INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET content = excluded.content,
            budget = excluded.budget, count = excluded.count, created = excluded.created""",
            (run.id, run.title, content, run.source, run.budget, run.count, run.created),
        )
        for place, (name, reason) in run.skipped.items():
            database.execute(
                "INSERT OR IGNORE INTO tasks (run, position, name, skipped) VALUES (?, ?, ?, ?)",
                (run.id, place, name, reason),
            )
        rows = {} if known is None else known.rows
        for place, row in run.rows.items():
            if row != (before := rows.get(place)):
                held += not _insert_row(database, row, before, numbers[run.wrote[place]], living)
    return held


def _insert_sessions(
    database: sqlite3.Connection, whole: Mapping[str, PackedSession], there: Mapping[str, PackedSession]
) -> dict[str, int]:
    """Enter the processes that are not there; the numbers of all by key."""
    query = "SELECT id, started, ended, beat, queries, busy, command, versions FROM sessions"
    numbers = {}
    for number, *times, command, versions in database.execute(query).fetchall():
        names = ("started", "ended", "beat", "queries", "busy")
        said = dict(zip(names, times, strict=True), command=json.loads(command), versions=json.loads(versions))
        numbers[plain_session(said).key] = number
    for key, one in sorted(whole.items(), key=lambda item: item[1].started):
        seen = (one.ended, one.beat, one.queries, one.busy)
        if key not in numbers:
            cursor = database.execute(
                """INSERT INTO sessions (ended, beat, queries, busy, started, command, versions)
                VALUES (?, ?, ?, ?, ?, ?, ?)""",
                (*seen, one.started, json.dumps(one.command), json.dumps(one.versions)),
            )
            assert cursor.lastrowid is not None
            numbers[key] = cursor.lastrowid
        elif one != there.get(key):
            query = "UPDATE sessions SET ended = ?, beat = ?, queries = ?, busy = ? WHERE id = ?"
            database.execute(query, (*seen, numbers[key]))
    return numbers


def _insert_row(
    database: sqlite3.Connection, row: Row, before: Row | None, session: int, living: Collection[int]
) -> bool:
    """Write a row in place of the one before; whether it could be, for a task belongs to the living that have it."""
    execute = database.execute
    if before is not None and replace(row, budget=before.budget) == before:
        place = "SELECT id FROM tasks WHERE run = ? AND position = ?"
        execute(f"UPDATE rows SET budget = ? WHERE task = ({place})", (row.budget, row.run, row.position))
        return True
    execute(
        "INSERT OR IGNORE INTO tasks (run, position, name) VALUES (?, ?, ?)",
        (row.run, row.position, row.name),
    )
    query = "SELECT id, owner FROM tasks WHERE run = ? AND position = ?"
    number, owner = execute(query, (row.run, row.position)).fetchone()
    if owner in living:
        return False
    execute("UPDATE tasks SET image = ?, skipped = NULL, owner = NULL WHERE id = ?", (row.checksum, number))
    execute(PUT_ROW, replace(row, task=number, session=session).values())
    execute("DELETE FROM traces WHERE task = ?", (number,))
    if row.end not in GOES_ON:
        execute("DELETE FROM answers WHERE key BETWEEN ? AND ?", answer_keys(number))
    return True
