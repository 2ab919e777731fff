"""A reporter that writes what TensorBoard shows; needs `dowse[tensorboard]`."""

from pathlib import Path
from typing import Any

from dowse.errors import InputError
from dowse.running.progress import Reporter, Snapshot
from dowse.store.row import Row


class TensorBoard(Reporter):
    """Success rate, queries and loss, one log a run.

    Args:
        folder: Where the logs go.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(f"--tensorboard needs TensorBoard: pip install 'dowse[tensorboard]' ({error})") from error
        self.folder, self.make = folder, SummaryWriter
        self.writers: dict[str, Any] = {}

    def began(self, snapshot: Snapshot) -> None:
        self.writers[snapshot.run] = self.make(str(self.folder / f"{snapshot.title} {snapshot.run}".replace("/", "_")))

    def ended(self, snapshot: Snapshot, row: Row) -> None:
        for name, value in snapshot.scalars(row).items():
            self.writers[snapshot.run].add_scalar(name, value, snapshot.done)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()
