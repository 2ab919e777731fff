"""Where reports are written: a file whole or an error that says what to do."""

from pathlib import Path

from dowse.errors import InputError
from dowse.machine.files import replacing


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, making the folder where there is none; the old file stands until the new one is whole."""
    place = path.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; name a file that can be written with --out") from error
