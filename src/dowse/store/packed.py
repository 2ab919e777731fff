"""What a store has found, as plain data without its images, answers and traces: what `dowse pack` writes."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dowse.core.outcome import End
from dowse.errors import InputError
from dowse.store.row import Row

SAME = ("checksum", "end", "queries", "label", "target_label", "predicted", "verified", "refused",
        "queries_until_detected")  # fmt: skip
NEAR = ("confidence", "confidence_before", "l2", "linf", "loss")  # up to rounding, which machines do each in its way
TOLERANCE = 1e-3


@dataclass(frozen=True)
class PackedSession:
    """A process that wrote rows or asked a target, as `SessionInfo` has it, without its number."""

    started: float
    ended: float | None
    beat: float
    queries: int
    busy: float
    command: list[str]
    versions: dict[str, str]

    @property
    def key(self) -> str:
        """Its name, the same in every store: a hash of when it began, its command and its versions."""
        text = json.dumps([self.started, self.command, self.versions], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()

    def joined(self, other: "PackedSession") -> "PackedSession":
        """The same process as two stores know it: as far as the one that saw more of it."""
        ended = max((one for one in (self.ended, other.ended) if one is not None), default=None)
        return replace(
            self, ended=ended, beat=max(self.beat, other.beat), queries=max(self.queries, other.queries),
            busy=max(self.busy, other.busy),
        )  # fmt: skip


@dataclass(frozen=True)
class PackedRun:
    """A run and its rows.

    Attributes:
        id: The hash of its content.
        title: What its method is called in tables.
        content: Its spec.
        beside: What is known of it beside its spec; None in a store of 0.1.0.
        source: The last part of the path of its image set.
        budget: The budget it was last asked to run with.
        count: How many places of the image set it was last asked to run.
        created: When it was entered, in seconds since 1970.
        skipped: By place, the name of an image that could not be read, and why.
        rows: By place, what became of an image; task, file and session are empty.
        wrote: By place, the key of the process that wrote the row.
    """

    id: str
    title: str
    content: dict[str, Any]
    beside: dict[str, Any] | None
    source: str
    budget: int
    count: int
    created: float
    skipped: dict[int, tuple[str, str]] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    wrote: dict[int, str] = field(default_factory=dict)

    def joined(self, other: "PackedRun") -> "PackedRun":
        """The same run as two places know it; of words, and of rows that agree, this one's stay."""
        rows, wrote = dict(self.rows), dict(self.wrote)
        for place, theirs in other.rows.items():
            ours = rows.get(place)
            rows[place] = theirs if ours is None else joined_rows(ours, theirs)
            if ours is None or rows[place] is theirs:
                wrote[place] = other.wrote[place]
        beside = (
            None if self.beside is None and other.beside is None else {**(other.beside or {}), **(self.beside or {})}
        )
        return replace(
            self,
            beside=beside,
            budget=max(self.budget, other.budget),
            count=max(self.count, other.count),
            created=min(self.created, other.created),
            skipped={place: why for place, why in (other.skipped | self.skipped).items() if place not in rows},
            rows=rows,
            wrote=wrote,
        )


@dataclass(frozen=True)
class Packed:
    """Runs by id and processes by key; `place` is where they come from, for messages."""

    place: str
    runs: dict[str, PackedRun] = field(default_factory=dict)
    sessions: dict[str, PackedSession] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(len(run.rows) for run in self.runs.values())

    def joined(self, other: "Packed") -> "Packed":
        """All that either has; of words, and of rows that agree, this one's stay. InputError where rows contradict."""
        runs = dict(self.runs)
        for one in other.runs.values():
            try:
                runs[one.id] = runs[one.id].joined(one) if one.id in runs else one
            except ContradictionError as error:
                raise InputError(
                    f"image {error.ours.position} ({error.ours.name}) of run {one.id} ({one.title}) has two results: "
                    f"{_told(error.ours)} in {self.place}, {_told(error.theirs)} in {other.place}. The same run came "
                    "out otherwise, with another machine or version: keep the two apart, in another file or folder, "
                    "or leave out the one that is wrong. Nothing was changed"
                ) from None
        sessions = dict(self.sessions)
        for key, session in other.sessions.items():
            sessions[key] = sessions[key].joined(session) if key in sessions else session
        return Packed(f"{self.place}, {other.place}", runs, sessions)

    def called_like(self, other: "Packed") -> "Packed":
        """The same with the words of another: of runs that both have, the title, the images' name, what is beside."""
        runs = dict(self.runs)
        for one in other.runs.values():
            beside = {**(runs[one.id].beside or {}), **one.beside} if one.beside is not None else runs[one.id].beside
            runs[one.id] = replace(runs[one.id], title=one.title, source=one.source, beside=beside)
        return replace(self, runs=runs)

    def same(self, other: "Packed") -> bool:
        """Whether both hold the same, wherever they come from."""
        return (self.runs, self.sessions) == (other.runs, other.sessions)


class ContradictionError(ValueError):
    """Two rows of one image of one run cannot both be true."""

    def __init__(self, ours: Row, theirs: Row) -> None:
        super().__init__(ours, theirs)
        self.ours, self.theirs = ours, theirs


def joined_rows(ours: Row, theirs: Row) -> Row:
    """Of two rows of one image of one run the one that went further; ours, if they agree, with the larger budget."""
    if ours.checksum == theirs.checksum:
        if theirs.end is End.TARGET_FAILED:
            return ours
        if ours.end is End.TARGET_FAILED:
            return theirs
        if ours.end is End.BUDGET and ours.budget < theirs.budget and ours.queries <= theirs.queries:
            return theirs
        if theirs.end is End.BUDGET and theirs.budget < ours.budget and theirs.queries <= ours.queries:
            return ours
        budget = max(ours.budget, theirs.budget)
        if _agree(ours, theirs) and (ours.end is not End.BUDGET or ours.budget == theirs.budget):
            return ours if ours.budget == budget else replace(ours, budget=budget)
    raise ContradictionError(ours, theirs)


def _agree(ours: Row, theirs: Row) -> bool:
    """Whether two rows say the same, but for what a clock, a kill and the way it was saved decide."""
    near = all(_near(getattr(ours, name), getattr(theirs, name)) for name in NEAR)
    return near and all(getattr(ours, name) == getattr(theirs, name) for name in SAME)


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _told(row: Row) -> str:
    told = f"{row.end} after {row.queries} of {row.budget} queries (checksum {row.checksum}, label {row.label}"
    return f"{told}, predicted {row.predicted}, l2 {row.l2}, linf {row.linf}, loss {row.loss})"


def without_folders(path: str) -> str:
    """The last part of a path: where a folder lies on one machine says nothing on another."""
    return Path(path).name or path


def _without_folders(word: str) -> str:
    """A word of a command line, an absolute path or the value of an option that is one cut to its last part."""
    option, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
    return f"{option}{sign}{without_folders(value) if Path(value).is_absolute() else value}"


def plain_session(values: Mapping[str, Any]) -> PackedSession:
    """A process by the values of `SessionInfo`, its times to a millisecond, without the folders of absolute paths."""
    command = [_without_folders(word) for word in values["command"]]
    ended = values["ended"]
    return PackedSession(
        started=round(values["started"], 3),
        ended=None if ended is None else round(ended, 3),
        beat=round(values["beat"], 3),
        queries=values["queries"],
        busy=round(values["busy"], 3),
        command=command,
        versions=values["versions"],
    )


def plain_row(row: Row) -> Row:
    """A row without what is only this store's (its number, file, process), its times to a millisecond."""
    seconds, finished = round(row.seconds, 3), round(row.finished, 3)
    return replace(row, task=0, file=None, session=0, verified=row.verified or 0, seconds=seconds, finished=finished)
