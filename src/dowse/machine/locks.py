"""A lock that a process holds as long as it lives, however it ends: the kernel lets go of it."""

import fcntl
import os
from pathlib import Path
from weakref import WeakSet


class LifeLock:
    """Holds the lock of a file, made if it is not there, until closed; closing removes the file.

    Others see with `is_held` whether whoever made it lives. A child that is forked does not hold it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        _held.add(self)

    def close(self) -> None:
        """Let go, and leave nothing behind."""
        self.path.unlink(missing_ok=True)
        self._let_go()

    def _let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_held(path: Path) -> bool:
    """Whether the process that made a LifeLock here lives, and has not closed it."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


_held: "WeakSet[LifeLock]" = WeakSet()


def _forked() -> None:
    for lock in list(_held):
        lock._let_go()


os.register_at_fork(after_in_child=_forked)
