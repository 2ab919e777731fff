"""A reporter that logs to Weights & Biases; needs `dowse[wandb]`."""

import os
from pathlib import Path
from typing import Any

from dowse.core.summary import Summary
from dowse.machine.importing import needed
from dowse.running.progress import Reporter, Snapshot
from dowse.store.row import Row

PROJECT = "dowse"


class WandB(Reporter):
    """Success rate, queries and loss, one W&B run a run; the same run goes on where it was stopped.

    What W&B takes from its environment it takes here too: WANDB_MODE=offline keeps all on this machine, WANDB_PROJECT
    and WANDB_ENTITY say where it goes.

    Args:
        folder: Where W&B keeps its files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.init = folder, needed("wandb", "--wandb needs Weights & Biases", "wandb").init
        self.runs: dict[str, Any] = {}

    def began(self, snapshot: Snapshot) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.runs[snapshot.run] = self.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=snapshot.run,
            name=f"{snapshot.title} {snapshot.run}",
            config={"title": snapshot.title, "images": snapshot.total},
            dir=str(self.folder),
            reinit="create_new",
            resume="allow",
        )

    def ended(self, snapshot: Snapshot, row: Row) -> None:
        self.runs[snapshot.run].log(snapshot.scalars(row), step=snapshot.done)

    def finished(self, snapshot: Snapshot, summary: Summary) -> None:
        self.runs[snapshot.run].summary.update(
            {
                "asr": summary.asr,
                "mean_queries": summary.mean_queries,
                "median_queries": summary.median_queries,
                "mean_queries_budget": summary.mean_queries_budget,
            }
        )

    def close(self) -> None:
        for run in self.runs.values():
            run.finish()
