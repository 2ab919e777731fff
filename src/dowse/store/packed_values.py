"""The values of a packed file's lines, checked: whatever is in a file, what comes out of here can be kept and read."""

import math
import re
from contextlib import suppress
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, get_args, get_type_hints

from dowse.core.outcome import End
from dowse.experiment.spec import id_of
from dowse.store.packed import PackedRun, PackedSession
from dowse.store.reader import RunInfo
from dowse.store.row import Row, type_of

NEEDED = ("target", "image_set", "method", "options", "norm", "eps", "seed", "loss", "surrogate")
COUNTS = ("position", "queries", "sent", "budget", "saved_queries", "verified")
WHOLE = 1e15
LARGEST = 2**63 - 1
CHANGED = "the file was changed or damaged; get it anew, or pack its store again"
_HINTS, _OF_A_RUN = get_type_hints(Row), get_type_hints(RunInfo)
_KNOWN_BESIDE = {one.name: type_of(_OF_A_RUN[one.name]) for one in fields(RunInfo) if one.default is not MISSING}
_CHECKSUM = re.compile(r"[0-9A-Za-z_-]{1,64}")  # a file is named by it


class Refused(ValueError):  # noqa: N818 what is wrong with a line; whoever knows the file makes an error of it
    """A line that cannot be taken, and what to do."""


def words_of(value: Any) -> Any:
    """A value as JSON has it: an infinite number is a word, a whole one has no point."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) < WHOLE else value


def checked_row(values: dict[str, Any]) -> Row:
    """A row of what a line says."""
    made = {name: _value(name, value, _HINTS[name]) for name, value in values.items()}
    if not _CHECKSUM.fullmatch(made["checksum"]):
        raise Refused(f"checksum={made['checksum']!r} is none: {CHANGED}")
    if negative := [name for name in COUNTS if made[name] is not None and made[name] < 0]:
        raise Refused(f"{negative[0]}={made[negative[0]]} counts and cannot be below 0: {CHANGED}")
    return Row(**made)


def checked_session(said: dict[str, Any]) -> PackedSession:
    """A process of what a line says."""
    values = {key: value for key, value in said.items() if key != "session"}
    hints: dict[str, Any] = get_type_hints(PackedSession)
    _check_names(values, hints, hints)
    session = PackedSession(**{name: _value(name, value, hints[name]) for name, value in values.items()})
    if session.key != said["session"]:
        raise Refused(f"process {said['session']!r} does not have the hash of what is said of it: {CHANGED}")
    return session


def checked_run(said: dict[str, Any]) -> PackedRun:
    """A run of what a line says, without rows; its id is the hash of its content."""
    hints = {"title": str, "source": str, "budget": int, "count": int, "created": float, "content": dict[str, Any],
             "beside": dict[str, Any] | None, "skipped": list[Any]}  # fmt: skip
    values = {key: value for key, value in said.items() if key != "run"}
    _check_names(values, hints, set(hints) - {"beside", "skipped"})
    made = {name: _value(name, value, hints[name]) for name, value in values.items()}
    content, beside = made["content"], made.get("beside")
    if lacking := [name for name in NEEDED if name not in content]:
        raise Refused(f"the content of run {said['run']!r} lacks {lacking[0]!r}: {CHANGED}")
    if id_of(content) != said["run"]:
        raise Refused(f"run {said['run']!r} does not have the hash of its content: {CHANGED}")
    if beside is not None:
        _check_names(beside, _KNOWN_BESIDE, ())
        beside = {name: _value(name, value, _KNOWN_BESIDE[name]) for name, value in beside.items()}
    if made["budget"] < 0 or made["count"] < 0:
        raise Refused(f"budget={made['budget']} and count={made['count']} count and cannot be below 0: {CHANGED}")
    skipped = {}
    for one in made.pop("skipped", []):
        if not isinstance(one, list) or len(one) != 3:
            raise Refused(f"skipped holds {one!r}, expected [place, name, reason]: {CHANGED}")
        place, name, reason = (_value("skipped", of, kind) for of, kind in zip(one, (int, str, str), strict=True))
        skipped[place] = name, reason
    return PackedRun(**{**made, "beside": beside, "skipped": skipped, "id": said["run"]})


def _check_names(said: dict[str, Any], known: Any, needed: Any) -> None:
    if unknown := sorted(said.keys() - set(known)):
        raise Refused(f"{unknown[0]!r} is unknown here: use the version of dowse that wrote it")
    if lacking := sorted(set(needed) - said.keys()):
        raise Refused(f"{lacking[0]!r} is missing: {CHANGED}")


def _value(name: str, value: Any, hint: Any) -> Any:
    """A value as its type has it; Refused if it is of another."""
    optional = isinstance(hint, UnionType)
    kind = next(one for one in get_args(hint) if one is not type(None)) if optional else hint
    if value is None and optional:
        return None
    if kind is float and value in ("inf", "-inf"):
        return float(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:
        with suppress(OverflowError):
            return float(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return value
    if kind is End and value in [*End]:
        return End(value)
    if kind in (str, bool) and isinstance(value, kind):
        return value
    if kind == list[str] and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    if kind == dict[str, str] and isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
        return value
    if kind in (list[Any], dict[str, Any]) and isinstance(value, list if kind == list[Any] else dict):
        return value
    raise Refused(f"{name}={value!r} is not {getattr(kind, '__name__', kind)}: {CHANGED}")
