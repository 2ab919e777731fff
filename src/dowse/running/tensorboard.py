"""A reporter that writes what TensorBoard shows; needs `dowse[tensorboard]`."""

from pathlib import Path
from typing import Any

from dowse.machine.importing import needed
from dowse.running.progress import Reporter, Snapshot
from dowse.store.row import Row


class TensorBoard(Reporter):
    """Success rate, queries and loss, one log a run.

    Args:
        folder: Where the logs go.
    """

    def __init__(self, folder: Path) -> None:
        tensorboard = needed("torch.utils.tensorboard", "--tensorboard needs TensorBoard", "tensorboard")
        self.folder, self.make = folder, tensorboard.SummaryWriter
        self.writers: dict[str, Any] = {}

    def began(self, snapshot: Snapshot) -> None:
        self.writers[snapshot.run] = self.make(str(self.folder / f"{snapshot.title} {snapshot.run}".replace("/", "_")))

    def ended(self, snapshot: Snapshot, row: Row) -> None:
        for name, value in snapshot.scalars(row).items():
            self.writers[snapshot.run].add_scalar(name, value, snapshot.done)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()
