"""Files that are there whole or not at all, and the hash that tells one from another."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dowse.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """A place beside `path` to write to; what is there at the end takes its name at once, after an error nothing does.

    What is no file, such as a pipe, cannot be replaced and is written to itself. A durable file is on disk before it
    has its name, and the name too as this ends: they survive a power failure.
    """
    place = Path(path).resolve()
    if place.exists() and not place.is_file():
        yield place
        return
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        yield partial
        if durable:
            _to_disk(partial)
        partial.replace(place)
        if durable:
            _to_disk(place.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, making the folder where there is none; the old file stands until the new one is whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as place:
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; name a file that can be written") from error


def file_digest(path: Path) -> str:
    """A hash of what a file holds."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def _to_disk(path: Path) -> None:
    """Have a file, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
