"""Where reports are written: a file whole or an error that says what to do."""

import os
from pathlib import Path

from dowse.errors import InputError


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, making the folder where there is none; the old file stands until the new one is whole."""
    place = path.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists() and not place.is_file():  # a device or a pipe cannot be replaced
            place.write_text(text, encoding="utf-8")
            return
        part = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; name a file that can be written with --out") from error
