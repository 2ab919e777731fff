"""The store: all that a folder of runs holds. One SQLite file for rows and answers, safetensors for images."""

from dowse.store.counted import Counted
from dowse.store.reader import RunInfo, SessionInfo, Store
from dowse.store.row import Row
from dowse.store.schema import StoreError
from dowse.store.writer import StoreWriter

__all__ = ["Counted", "Row", "RunInfo", "SessionInfo", "Store", "StoreError", "StoreWriter"]
