"""Who owns an image now, and whether that process is still alive."""

import os
import socket
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

LEASE = 60.0  # seconds after which a process on another machine that shows no sign of life counts as dead
BEAT = 10.0  # seconds between signs of life


@cache
def machine() -> str:
    """Names this machine, since when it is up, and its world of process numbers."""
    parts = [socket.gethostname()]
    for read in (_boot, _namespace):
        try:
            parts.append(read())
        except OSError:
            parts.append("")
    return "|".join(parts)


def process_start(pid: int) -> str | None:
    """When a process of this machine began, as its kernel counts; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


def is_alive(host: str, pid: int, process: str, beat: float, now: float) -> bool:
    """Whether a process that wrote these values about itself still runs.

    On this machine the process table knows. Of another machine only the last sign of life is known.
    """
    if host == machine():
        return process_start(pid) == process
    return now - beat < LEASE


class Heartbeat:
    """Calls a function every few seconds from a thread of its own, until closed."""

    def __init__(self, beat: Callable[[], None], every: float = BEAT) -> None:
        self._beat, self._every = beat, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go, name="dowse-heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait until it has."""
        self._ended.set()
        self._thread.join()

    def _go(self) -> None:
        while not self._ended.wait(self._every):
            self._beat()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")
