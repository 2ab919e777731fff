"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A place beside `path` to write to; what is there at the end takes its name at once, after an error nothing does.

    What is no file, such as a pipe, cannot be replaced and is written to itself.
    """
    place = Path(path).resolve()
    if place.exists() and not place.is_file():
        yield place
        return
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)
