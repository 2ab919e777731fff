"""Where reports are written: a file whole or an error that says what to do."""

from pathlib import Path

from dowse.errors import InputError


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, making the folder where there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; name a file that can be written with --out") from error
