"""What a run tells while it goes: bars in a terminal, plain lines elsewhere, JSON events for programs, or nothing."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from dowse.core.summary import Summary
from dowse.store.row import Row
from dowse.wording import duration

EVERY = 5.0  # seconds between two plain lines
STILL = 20.0  # seconds without an answer after which a run stands still


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run so far.

    Attributes:
        run: Its id.
        title: What it is called.
        total: Images to attack.
        done: Images that ended, in any process, but for those that the target failed on.
        fooled: How many of them were fooled.
        already_wrong: How many of them were misclassified unchanged.
        nonfinite: How many of them had scores that are not finite.
        here: Images that ended in this process.
        active: Images under attack in this process.
        queries: Queries answered to this process.
        busy: Seconds the target worked on them.
        seconds: Seconds since this process began with the run.
        silent: Seconds since there was last an answer.
    """

    run: str
    title: str
    total: int
    done: int = 0
    fooled: int = 0
    already_wrong: int = 0
    nonfinite: int = 0
    here: int = 0
    active: int = 0
    queries: int = 0
    busy: float = 0.0
    seconds: float = 0.0
    silent: float = 0.0

    @property
    def success_rate(self) -> float | None:
        """The share of attacked images that were fooled; None before the first."""
        attacked = self.done - self.already_wrong - self.nonfinite
        return self.fooled / attacked if attacked else None

    @property
    def rate(self) -> float:
        """Queries a second."""
        return self.queries / self.seconds if self.seconds > 0 else 0.0

    @property
    def busy_share(self) -> float:
        """The share of the time that the target worked."""
        return self.busy / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds until the end if the other images are like those that ended here; None if that cannot be told."""
        if not self.here or self.stands_still:
            return None
        return (self.total - self.done) * self.seconds / self.here

    @property
    def stands_still(self) -> bool:
        """Whether there was no answer for so long that neither speed nor end can be told."""
        return self.silent >= STILL

    def scalars(self, row: Row) -> dict[str, Any]:
        """What a dashboard draws as a task ends: the numbers of its row, and of the run so far."""
        said = {f"image/{word}": getattr(row, word) for word in ("queries", "l2", "linf", "loss", "seconds")}
        if self.success_rate is not None:
            said["run/success_rate"] = self.success_rate
        return said | {"run/queries_per_second": self.rate, "run/target_busy": self.busy_share}

    def __str__(self) -> str:
        rate = "–" if self.success_rate is None else f"{self.success_rate:.1%}"
        if self.stands_still:
            return f"{self.done}/{self.total} images, {rate} fooled, no answer for {duration(self.silent)}"
        left = "–" if self.left is None else duration(self.left)
        return (
            f"{self.done}/{self.total} images, {rate} fooled, {self.rate:.0f} queries/s, "
            f"target busy {self.busy_share:.0%}, {left} left"
        )


class Reporter:
    """Is told what happens; the base tells nobody."""

    def began(self, snapshot: Snapshot) -> None:
        """A run began, or goes on."""

    def progressed(self, snapshot: Snapshot) -> None:
        """Something was committed."""

    def ended(self, snapshot: Snapshot, row: Row) -> None:
        """A task ended."""

    def message(self, text: str) -> None:
        """Something a person should know."""

    def finished(self, snapshot: Snapshot, summary: Summary) -> None:
        """A run has nothing left to do."""

    def close(self) -> None:
        """Nothing will follow."""


class Lines(Reporter):
    """Plain lines, at most one every few seconds."""

    def __init__(self, stream: TextIO, every: float = EVERY) -> None:
        self.stream, self.every, self.last = stream, every, time.monotonic()

    def began(self, snapshot: Snapshot) -> None:
        self.message(f"{snapshot.title} [{snapshot.run}]: {snapshot.done} of {snapshot.total} images done")

    def progressed(self, snapshot: Snapshot) -> None:
        if time.monotonic() - self.last >= self.every:
            self.message(f"{snapshot.title}: {snapshot}")

    def message(self, text: str) -> None:
        self.last = time.monotonic()
        print(text, file=self.stream, flush=True)

    def finished(self, snapshot: Snapshot, summary: Summary) -> None:
        self.message(f"{snapshot.title} [{snapshot.run}]: {summary}")


class JsonLines(Reporter):
    """One JSON object a line: {"event": "image", …}."""

    def __init__(self, stream: TextIO, every: float = 1.0) -> None:
        self.stream, self.every, self.last = stream, every, 0.0

    def tell(self, event: str, **values: Any) -> None:
        """One event."""
        finite = {name: _or_none(value) for name, value in values.items()}
        print(json.dumps({"event": event, **finite}), file=self.stream, flush=True)

    def began(self, snapshot: Snapshot) -> None:
        self.tell("began", **asdict(snapshot))

    def progressed(self, snapshot: Snapshot) -> None:
        if time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            self.tell("progress", **asdict(snapshot), left=snapshot.left)

    def ended(self, snapshot: Snapshot, row: Row) -> None:
        told = ("end", "queries", "sent", "budget", "label", "predicted", "l2", "linf", "loss", "seconds", "cause")
        values = {word: getattr(row, word) for word in told}
        self.tell("image", run=row.run, image=row.name, **values)

    def message(self, text: str) -> None:
        self.tell("message", text=text)

    def finished(self, snapshot: Snapshot, summary: Summary) -> None:
        self.tell("finished", run=snapshot.run, title=snapshot.title, **asdict(summary))


class RichBars(Reporter):
    """A bar a run, in a terminal."""

    def __init__(self, console: Console) -> None:
        self.bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            console=console,
        )
        self.tasks: dict[str, TaskID] = {}
        self.bars.start()

    def began(self, snapshot: Snapshot) -> None:
        told = "" if snapshot.success_rate is None else f"{snapshot.success_rate:.1%} fooled"
        self.tasks[snapshot.run] = self.bars.add_task(
            snapshot.title, total=snapshot.total, completed=snapshot.done, told=told
        )

    def progressed(self, snapshot: Snapshot) -> None:
        told = str(snapshot).partition(", ")[2]
        self.bars.update(self.tasks[snapshot.run], completed=snapshot.done, total=snapshot.total, told=told)

    def message(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)

    def finished(self, snapshot: Snapshot, summary: Summary) -> None:
        told = f"{summary.asr:.1%} fooled, AVG. Q {summary.mean_queries:.1f}, median {summary.median_queries:g}"
        self.bars.update(self.tasks[snapshot.run], completed=snapshot.done, total=snapshot.total, told=told)

    def close(self) -> None:
        self.bars.stop()


class Several(Reporter):
    """Tells several reporters."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self.reporters = reporters

    def began(self, snapshot: Snapshot) -> None:
        for reporter in self.reporters:
            reporter.began(snapshot)

    def progressed(self, snapshot: Snapshot) -> None:
        for reporter in self.reporters:
            reporter.progressed(snapshot)

    def ended(self, snapshot: Snapshot, row: Row) -> None:
        for reporter in self.reporters:
            reporter.ended(snapshot, row)

    def message(self, text: str) -> None:
        for reporter in self.reporters:
            reporter.message(text)

    def finished(self, snapshot: Snapshot, summary: Summary) -> None:
        for reporter in self.reporters:
            reporter.finished(snapshot, summary)

    def close(self) -> None:
        for reporter in self.reporters:
            reporter.close()


def _or_none(value: Any) -> Any:
    """JSON knows no infinity and no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
