"""A process that writes to a store: it enters the manifest, shows signs of life, and gives back its claims."""

import json
import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from dowse.machine.packages import versions
from dowse.store import owners
from dowse.store.reader import Store
from dowse.store.schema import StoreError, connect, transaction


class StoreSession(Store):
    """The store of a folder with this process entered; it shows signs of life until it is closed."""

    def __init__(self, folder: Path | str, command: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self.session = self._begin_session(command)
        self._heartbeat = owners.Heartbeat(self._beat)

    def _connect(self) -> sqlite3.Connection:
        return connect(self.folder, writable=True, check=True)

    def close(self) -> None:
        """Give back what is claimed, and let go of the database."""
        self._heartbeat.close()
        try:
            with transaction(self._database, self.folder):
                self._database.execute("UPDATE tasks SET owner = NULL WHERE owner = ?", (self.session,))
                self._database.execute("UPDATE sessions SET ended = ? WHERE id = ?", (time.time(), self.session))
        except StoreError:
            pass  # the claims of a process that is gone count for nothing
        finally:
            super().close()

    def _living_owners(self) -> list[int]:
        """The sessions that have claimed images and are alive, this one included."""
        query = """SELECT id, machine, pid, process, beat FROM sessions
            WHERE id IN (SELECT DISTINCT owner FROM tasks WHERE owner IS NOT NULL)"""
        now = time.time()
        found = self._database.execute(query).fetchall()
        return [one for one, host, pid, process, beat in found if owners.is_alive(host, pid, process, beat, now)]

    def _begin_session(self, command: Sequence[str]) -> int:
        pid, now = os.getpid(), time.time()
        with transaction(self._database, self.folder):
            cursor = self._database.execute(
                """INSERT INTO sessions (started, command, versions, machine, pid, process, beat)
                VALUES (?, ?, ?, ?, ?, ?, ?)""",
                (
                    now,
                    json.dumps(command),
                    json.dumps({**versions(), "platform": platform.platform()}),
                    owners.machine(),
                    pid,
                    owners.process_start(pid),
                    now,
                ),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _beat(self) -> None:
        """A sign of life, from the heartbeat's thread and through a connection of its own."""
        try:
            with closing(connect(self.folder, writable=True)) as database:
                database.execute("UPDATE sessions SET beat = ? WHERE id = ?", (time.time(), self.session))
        except (StoreError, sqlite3.Error):
            pass  # the next transaction of the main thread meets the same trouble and says so
