"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def _to_disk(path: Path) -> None:
    """Have a file, or the names in a folder, survive a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
