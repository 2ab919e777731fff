"""A packed store as a file: JSON Lines, sorted, the same bytes for the same content; read whole or not at all.

    {"format":"dowse rows","version":1,"columns":["position","name",…]}
    {"session":"0f3a…","started":…,"command":[…],"versions":{…},…}        a line a process, the oldest first
    {"run":"ed9e50f1e72b","title":…,"budget":…,"content":{…},…}            a line a run, the oldest first, and after it
    [0,"0000.jpg","a15edebca3adaa29","adversarial",2,…,{"budget":1000}]    a line an image of it, by place
    {"rows":1,"digest":"…"}                                                of the lines before

A row has the values of the columns, and last, where there are any, those others that are not as usual: `sent` is
usually as many as `queries`, `budget` and `seed` are the run's, all else is zero or empty.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from dowse.errors import InputError
from dowse.machine.files import write_file
from dowse.store.packed import Packed, PackedRun, PackedSession
from dowse.store.packed_values import CHANGED, Refused, checked_row, checked_run, checked_session, words_of
from dowse.store.row import Row

FORMAT, VERSION = "dowse rows", 1
COLUMNS = ("position", "name", "checksum", "end", "queries", "label", "predicted", "confidence_before", "confidence",
           "l2", "linf", "loss", "seconds", "finished", "session")  # fmt: skip
NOT_PACKED = ("run", "task", "file")
OTHERS = tuple(one.name for one in fields(Row) if one.name not in (*COLUMNS, *NOT_PACKED))
_HEAD = {"format": FORMAT, "version": VERSION, "columns": list(COLUMNS)}


def write_packed(path: Path, packed: Packed) -> None:
    """Write a file; the old one stands until the new one is whole."""
    write_file(path, packed_text(packed))


def packed_text(packed: Packed) -> str:
    """The text of the file."""
    lines = [_line(value) for value in _values(packed)]
    return "\n".join((*lines, _line(_last(lines, packed.count)), ""))


def read_packed(path: Path) -> Packed:
    """What a file holds. InputError, which says the line, if it is not wholly what `write_packed` writes."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}; name a file that `dowse pack` wrote") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no packed store, which would be text: `dowse pack DIR FILE` writes one") from error
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    reading = _Reading(Packed(str(path)))
    for number, line in enumerate(lines, 1):
        try:
            reading.take(number, _parsed(line), lines)
        except Refused as refused:
            raise InputError(f"{path}, line {number}: {refused}. Nothing of it was taken") from None
    if not reading.over:
        raise InputError(f"{path} ends after line {len(lines)} without its last line: {_CUT}. Nothing of it was taken")
    return reading.packed


_CUT = "it was cut short; get it anew, or pack its store again"


class _Reading:
    """A file, line by line: `over` once its last line was there."""

    def __init__(self, packed: Packed) -> None:
        self.packed, self.over = packed, False
        self.run: PackedRun | None = None

    def take(self, number: int, value: Any, lines: list[str]) -> None:
        """Take a line in; Refused if it may not stand there."""
        if number == 1:
            _check_head(value)
        elif self.over:
            raise Refused(f"something follows the last line: {CHANGED}")
        elif isinstance(value, list) and self.run is not None:
            self._row(self.run, value)
        elif isinstance(value, dict) and "run" in value:
            self.run = checked_run(value)
            if self.run.id in self.packed.runs:
                raise Refused(f"run {self.run.id} is there twice: {CHANGED}")
            self.packed.runs[self.run.id] = self.run
        elif isinstance(value, dict) and "session" in value and self.run is None:
            session = checked_session(value)
            self.packed.sessions[session.key] = session
        elif isinstance(value, dict) and "digest" in value:
            if value != _last(lines[: number - 1], self.packed.count):
                raise Refused(f"the lines before are not those that it was written with: {CHANGED}")
            self.over = True
        else:
            raise Refused(f"neither a process, a run, a row of one nor the end: {CHANGED}")

    def _row(self, run: PackedRun, value: list[Any]) -> None:
        others = value.pop() if len(value) == len(COLUMNS) + 1 else {}
        if len(value) != len(COLUMNS) or not isinstance(others, dict):
            raise Refused(f"a row has {len(COLUMNS)} columns and an object at most, got {len(value)}: {CHANGED}")
        if unknown := sorted(others.keys() - {*OTHERS}):
            raise Refused(f"the column {unknown[0]!r} is unknown here: use the version of dowse that wrote it")
        said = dict(zip(COLUMNS, value, strict=True))
        wrote = said.pop("session")
        row = checked_row({**_usual(run, said["queries"]), **said, **others, "run": run.id})
        if wrote not in self.packed.sessions:
            raise Refused(f"no process {wrote!r} stands above: {CHANGED}")
        if row.position in run.rows or row.position in run.skipped:
            raise Refused(f"image {row.position} of run {run.id} is there twice: {CHANGED}")
        run.rows[row.position], run.wrote[row.position] = row, wrote


def _values(packed: Packed) -> Iterator[Any]:
    """All lines but the last, as plain values."""
    yield _HEAD
    for session in sorted(packed.sessions.values(), key=lambda one: (one.started, one.key)):
        yield _session(session)
    for run in sorted(packed.runs.values(), key=lambda one: (one.created, one.id)):
        yield _run(run)
        for place in sorted(run.rows):
            yield _row(run, run.rows[place], run.wrote[place])


def _session(session: PackedSession) -> dict[str, Any]:
    return {"session": session.key, **asdict(session)}


def _run(run: PackedRun) -> dict[str, Any]:
    said = {"run": run.id, "title": run.title, "source": run.source, "budget": run.budget, "count": run.count,
            "created": run.created, "content": run.content}  # fmt: skip
    if run.beside is not None:
        said["beside"] = run.beside
    if run.skipped:
        said["skipped"] = [[place, *run.skipped[place]] for place in sorted(run.skipped)]
    return said


def _row(run: PackedRun, row: Row, wrote: str) -> list[Any]:
    usual = _usual(run, row.queries)
    others = {name: words_of(value) for name in OTHERS if (value := getattr(row, name)) != usual[name]}
    line = [wrote if name == "session" else words_of(getattr(row, name)) for name in COLUMNS]
    return [*line, others] if others else line


def _usual(run: PackedRun, queries: Any) -> dict[str, Any]:
    """What the columns beyond the first hold where nothing is said of them."""
    usual = {one.name: one.default for one in fields(Row) if one.name in OTHERS}
    return usual | {
        "sent": queries,
        "budget": run.budget,
        "seed": run.content.get("seed"),
        "target_label": None,
        "cause": None,
    }


def _last(lines: list[str], rows: int) -> dict[str, Any]:
    return {"rows": rows, "digest": hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()}


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parsed(line: str) -> Any:
    try:
        value = json.loads(line)
        _line(value).encode()  # half a character, which JSON can say, cannot be kept
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON ({error}): {CHANGED}") from None
    return value


def _check_head(value: Any) -> None:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise Refused('no packed store, which begins with {"format":"dowse rows"}: `dowse pack DIR FILE` writes one')
    if value.get("version") != VERSION:
        raise Refused(
            f"it has the format {value.get('version')!r}, this version of dowse reads {VERSION}: use the version that "
            "wrote it"
        )
    if value != _HEAD:
        raise Refused(f"its columns are not those of format {VERSION}: {CHANGED}")
