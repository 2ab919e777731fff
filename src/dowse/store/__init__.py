"""The store: all that a folder of runs holds. One SQLite file for rows and answers, safetensors for images."""

from typing import TYPE_CHECKING, Any

from dowse.store.counted import Counted
from dowse.store.reader import RunInfo, SessionInfo, Store
from dowse.store.row import Row
from dowse.store.schema import StoreError

if TYPE_CHECKING:
    from dowse.store.writer import StoreWriter

__all__ = ["Counted", "Row", "RunInfo", "SessionInfo", "Store", "StoreError", "StoreWriter"]


def __getattr__(name: str) -> Any:
    """The writer is imported when it is first used: it needs torch, and whoever only reads does not."""
    if name != "StoreWriter":
        raise AttributeError(f"module 'dowse.store' has no attribute {name!r}")
    from dowse.store.writer import StoreWriter

    return StoreWriter
