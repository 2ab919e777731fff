"""The SQLite file of a store: its tables, how it is opened, and what its errors mean."""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from dowse.store.row import COLUMNS

FILE = "dowse.sqlite"
VERSION = 2
APPLICATION = 0x646F7773  # "dows", so that file(1) and we know whose it is
NUMBER_BITS = 24  # of an answer's key: its number among those of its task
WAIT = 30.0  # seconds for another process to finish its transaction

TABLES = f"""
CREATE TABLE sessions (          -- one a process that ever wrote here: the manifest, and whether it is alive
    id INTEGER PRIMARY KEY, started REAL, ended REAL, command TEXT, versions TEXT,
    machine TEXT, pid INTEGER, process TEXT, beat REAL, queries INTEGER DEFAULT 0, busy REAL DEFAULT 0
);
CREATE TABLE runs (              -- one a run of any experiment
    id TEXT PRIMARY KEY, title TEXT, content TEXT, source TEXT, budget INTEGER, count INTEGER, created REAL
);
CREATE TABLE tasks (             -- one an image of a run, position its index
    id INTEGER PRIMARY KEY, run TEXT, position INTEGER, name TEXT, image TEXT, skipped TEXT, owner INTEGER,
    sent INTEGER DEFAULT 0, restarts INTEGER DEFAULT 0, replayed INTEGER DEFAULT 0, inexact INTEGER DEFAULT 0,
    difference REAL DEFAULT 0, UNIQUE (run, position)
);
CREATE INDEX owned ON tasks (owner) WHERE owner IS NOT NULL;
CREATE TABLE answers (           -- one a question, key = task << 24 | number
    key INTEGER PRIMARY KEY, block BLOB
);
CREATE TABLE rows (              -- one a task that ended, see dowse.store.row
    {", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())}, PRIMARY KEY ("task")
);
CREATE TABLE traces (task INTEGER PRIMARY KEY, block BLOB);
"""
PUT_ROW = f"""INSERT OR REPLACE INTO rows ({", ".join(f'"{name}"' for name in COLUMNS)})
    VALUES ({", ".join("?" * len(COLUMNS))})"""
"""Writes a row's values, in place of those that its task may have."""


class StoreError(RuntimeError):
    """The store cannot be read or written; what was committed before is safe. The message says what to do."""


def connect(folder: Path, *, writable: bool, check: bool = False) -> sqlite3.Connection:
    """The database of a folder, made if it is to be written and not there; check looks for damage all through it."""
    file = folder / FILE
    if not writable and not file.is_file():
        raise StoreError(f"there is no store in {folder}: expected the file {FILE}; `dowse run FILE --out` makes one")
    with explained(folder):
        if writable:
            folder.mkdir(parents=True, exist_ok=True)
        database = _open(_address(file)) if writable else _open_to_read(file)
        try:
            if writable:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
            _check_version(database, file, writable)
            if writable:
                _add_columns(database)
            if check and (found := database.execute("PRAGMA quick_check(1)").fetchone()) != ("ok",):
                raise StoreError(f"the store in {folder} failed: {found[0]}. {_CORRUPT}")
        except BaseException:
            database.close()
            raise
    return database


def in_memory() -> sqlite3.Connection:
    """An empty database that is nowhere on disk."""
    database = _open(":memory:")
    database.executescript(TABLES)
    return database


def answer_keys(task: int) -> tuple[int, int]:
    """The first and the last key of a task's answers."""
    return task << NUMBER_BITS, (task + 1 << NUMBER_BITS) - 1


@contextmanager
def transaction(database: sqlite3.Connection, folder: Path) -> Iterator[None]:
    """All or nothing, and nobody else writes meanwhile."""
    with explained(folder):
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn what SQLite and the file system raise into a StoreError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        remedy = next((text for code, text in _REMEDIES if _error_name(error).startswith(code)), _SAFE)
        raise StoreError(f"the store in {folder} failed: {error}. {remedy}") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StoreError(f"cannot write to {folder}: {error}. {_FULL if full else _PLACE}") from error


_SAFE = "Everything committed so far is kept; the same command goes on from there"
_FULL = f"The disk is full: make room. {_SAFE}"
_PLACE = f"Give a folder that can be written with --out. {_SAFE}"
_CORRUPT = (
    "The file is damaged or no store at all: restore it from a backup, or move it away to start anew; the images "
    "beside it are untouched"
)
_REMEDIES = (
    ("SQLITE_FULL", _FULL),
    ("SQLITE_IOERR", f"The disk may be full or failing. {_SAFE}"),
    ("SQLITE_READONLY", _PLACE),
    ("SQLITE_CANTOPEN", _PLACE),
    ("SQLITE_BUSY", f"Another process has kept it locked for {WAIT:g} seconds: end that one, or wait. {_SAFE}"),
    ("SQLITE_LOCKED", f"Another process keeps it locked: end that one, or wait. {_SAFE}"),
    ("SQLITE_CORRUPT", _CORRUPT),
    ("SQLITE_NOTADB", _CORRUPT),
)


def _add_columns(database: sqlite3.Connection) -> None:
    """Give the rows of an older store the columns that came later, empty; older versions read on as they did."""
    if not _missing(database):
        return
    database.execute("BEGIN IMMEDIATE")
    for name in _missing(database):  # somebody else may have added them meanwhile
        database.execute(f'ALTER TABLE rows ADD COLUMN "{name}" {COLUMNS[name]}')
    database.execute("COMMIT")


def _missing(database: sqlite3.Connection) -> list[str]:
    there = {name for _, name, *_ in database.execute("PRAGMA table_info(rows)")}
    return [name for name in COLUMNS if name not in there]


def _address(file: Path, mode: str = "mode=rwc") -> str:
    return f"{file.absolute().as_uri()}?{mode}"


def _open(address: str) -> sqlite3.Connection:
    return sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None)


def _open_to_read(file: Path) -> sqlite3.Connection:
    """The database beside whoever writes it, now or later; where no one can write, it stands still.

    SQLite needs files of its own beside a database that others may write. They go as it is closed, but not if it was
    opened with mode=ro; so it is opened to be written, and told not to. On a disk that is full or read-only it cannot
    make them; then no living process has them either, and it is read without: as it stands, or, where somebody who was
    killed left a log, with the log's index in memory, for which a read-only disk takes a copy elsewhere.
    """
    try:
        return _looked_at(_open(_address(file, "mode=rw")))
    except sqlite3.OperationalError as error:
        if not _hindered(error):
            raise
        log = file.with_name(f"{file.name}-wal")
        if log.is_file() and log.stat().st_size:
            with suppress(sqlite3.OperationalError):
                return _looked_at(_open(_address(file, "mode=rw")), "PRAGMA locking_mode = EXCLUSIVE")
            return _copied(file, log)
        return _open(_address(file, "mode=ro&immutable=1"))


def _copied(*files: Path) -> sqlite3.Connection:
    """A copy of a database and its log, which goes as it is closed: it has no name any more."""
    with TemporaryDirectory(prefix="dowse-") as folder:
        database, *_ = [Path(shutil.copyfile(file, Path(folder, file.name))) for file in files]
        return _looked_at(_open(_address(database, "mode=rw")))


def _looked_at(database: sqlite3.Connection, *settings: str) -> sqlite3.Connection:
    """A database told not to be written, once it could be read."""
    try:
        for statement in (*settings, "PRAGMA query_only = ON", "PRAGMA user_version"):  # the last looks at the file
            database.execute(statement)
    except BaseException:
        database.close()
        raise
    return database


def _hindered(error: sqlite3.Error) -> bool:
    """Whether SQLite could not make its files beside the database, or found no room for them."""
    return _error_name(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_FULL"))


def _error_name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or ""


def _check_version(database: sqlite3.Connection, file: Path, writable: bool) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version == 0 and writable:
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone() == (0,):
            for statement in filter(str.strip, TABLES.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {APPLICATION}")
            database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")
        version = VERSION
    if version != VERSION:
        raise StoreError(
            f"{file} has the format {version}, this version of dowse reads {VERSION}: use the version that wrote it, "
            "or another folder"
        )
