"""A process that writes to a store: it enters the manifest, and what it has claimed is its own while it lives."""

import json
import os
import platform
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from dowse.machine.locks import LifeLock, is_held
from dowse.machine.packages import versions
from dowse.store.reader import Store, lock_of
from dowse.store.schema import StoreError, connect, transaction


class StoreSession(Store):
    """The store of a folder with this process entered, until it is closed."""

    def __init__(self, folder: Path | str, command: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self._lock: LifeLock | None = None
        try:
            self.session = self._begin_session(command)
        except BaseException:
            self._let_go()
            raise

    def _connect(self) -> sqlite3.Connection:
        return connect(self.folder, writable=True, check=True)

    def close(self) -> None:
        """Give back what is claimed, and let go of the database."""
        try:
            with transaction(self._database, self.folder):
                self._database.execute("UPDATE tasks SET owner = NULL WHERE owner = ?", (self.session,))
                self._database.execute("UPDATE sessions SET ended = ? WHERE id = ?", (time.time(), self.session))
        except StoreError:
            pass  # the claims of a process that is gone count for nothing
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._lock is not None:
            self._lock.close()
        super().close()

    def _living_owners(self) -> set[int]:
        """The sessions that have claimed tasks and are alive, this one included."""
        owners = self._database.execute("SELECT DISTINCT owner FROM tasks WHERE owner IS NOT NULL")
        return {owner for (owner,) in owners if owner == self.session or is_held(lock_of(self.folder, owner))}

    def _begin_session(self, command: Sequence[str]) -> int:
        """Enter the manifest, lock in hand before anybody can see it there; the locks of the dead are removed."""
        now, ran_on = time.time(), {**versions(), "platform": platform.platform()}
        with transaction(self._database, self.folder):
            for left in self.folder.glob(lock_of(self.folder, "*").name):
                if not is_held(left):
                    left.unlink(missing_ok=True)
            cursor = self._database.execute(
                "INSERT INTO sessions (started, command, versions, machine, pid, beat) VALUES (?, ?, ?, ?, ?, ?)",
                (now, json.dumps(command), json.dumps(ran_on), platform.node(), os.getpid(), now),
            )
            assert cursor.lastrowid is not None
            self._lock = LifeLock(lock_of(self.folder, cursor.lastrowid))
            return cursor.lastrowid
