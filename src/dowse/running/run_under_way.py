"""A run while it runs: gives out its tasks, commits what becomes of them, and keeps the tally."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from torch import Size, Tensor

from dowse.core.outcome import End
from dowse.core.packing import images_at_once
from dowse.core.seeds import image_id
from dowse.core.summary import Summary, summarize
from dowse.core.task import Task
from dowse.errors import InputError, TargetFailedError
from dowse.experiment.spec import PlannedRun
from dowse.images.image_set import UNREADABLE, ImageSource
from dowse.images.image_set import Size as Sides
from dowse.running.engines.base import Work
from dowse.running.instructions import Instructions
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Reporter, Snapshot
from dowse.settings import too_small
from dowse.store import Counted, Row, StoreWriter
from dowse.store.events import Ended, Event, Replayed, Reserved, Restarted, Round, Stopped

FAILURES_IN_A_ROW = 10  # so many images that the target fails on, and none in between, end a run


@dataclass(frozen=True)
class Finished:
    """A run as this process leaves it.

    Attributes:
        plan: What was to be run.
        rows: The rows of its tasks that are done, cut to its budget.
        skipped: Images that could not be read, and why.
        elsewhere: Tasks that other processes still attack.
        failed: The rows of tasks that the target failed on, which are tried again.
    """

    plan: PlannedRun
    rows: list[Row]
    skipped: dict[str, str]
    elsewhere: int
    failed: list[Row] = field(default_factory=list)

    @property
    def summary(self) -> Summary:
        """The run in numbers."""
        return summarize([*self.rows, *self.failed])

    @property
    def trouble(self) -> str | None:
        """Why the run says less about the target than was asked for, and what to do; None if all is well."""
        summary, title = self.summary, self.plan.title
        if summary.failed:
            sizes = "" if self.rows else _own_size(summary.cause)
            again = "the same command goes on" if self.failed else "begin anew in another folder, for answers are kept"
            return (
                f"the target failed on {summary.failed} of {len(self.rows) + len(self.failed)} images of {title}, "
                f"which do not count, first with {summary.cause}. Mend the target{sizes}; {again}"
            )
        if self.skipped and not self.rows and not self.elsewhere:
            name, reason = next(iter(self.skipped.items()))
            return f"no image of {title} could be read, the first, {name}, because of this: {reason}"
        if summary.already_wrong and not summary.n and not self.elsewhere:
            return (
                f"{title} had no image to attack: the target misclassifies all {summary.already_wrong} unchanged. "
                "Check their labels (do they count from 0, in the target's order?), or take the target's own: "
                "--labels target, in Python y=None"
            )
        return None


def _own_size(cause: str | None) -> str:
    """What else may be done where a target failed on all images, because of their size or their channels."""
    said = (cause or "").lower()
    if "channel" in said:
        return ", or give it images of its own channels with --channels, of its own size with --size"
    shapes = any(word in said for word in ("size", "shape", "dim", "broadcast"))
    return ", or give it images of its own size with --size" if shapes else ""


@dataclass
class RunUnderWay(Work):
    """A run between the store, the engine and whoever is told.

    Attributes:
        plan: What is run, and for how many images.
        told: What workers are told about it.
        images: The image set.
        size: The side of the images that the target takes, or (height, width); None keeps each image's own.
        path: Where the image set is, for the record.
        store: Where all is kept.
        report: Who is told.
        interrupt: Asked whether to stop.
        note: What is said as it begins.
    """

    plan: PlannedRun
    told: Instructions
    images: ImageSource
    size: Sides
    path: str
    store: StoreWriter
    report: Reporter
    interrupt: Interrupt
    note: str = ""
    replayed: list[Replayed] = field(default_factory=list)
    failures: int = 0
    limit: int = -1
    shape: Size | None = None

    def __post_init__(self) -> None:
        self.run, self.began = self.plan.spec.id, time.monotonic()
        self.answered = self.began
        self.snapshot = Snapshot(run=self.run, title=self.plan.title, total=0)
        self._announce()
        self.report.began(self.snapshot)
        if self.note:
            self.report.message(self.note)
        spec = self.plan.spec
        if why := too_small(self.plan.budget, spec.options, repeats=spec.repeats, accept=spec.accept):
            self.report.message(f"{self.plan.title} {why}")

    def take(self) -> Task | None:
        """As Work.take: claim the next task in the store; those whose images cannot be read are made up for."""
        while not self.interrupt.wanted:
            claimed = self.store.claim(self.run, self.plan.budget, self.limit)
            if claimed is None:
                return None
            (index, past), entry = claimed, self.images.entries[claimed[0]]
            try:
                x = self.images.read(index, self.size)
            except UNREADABLE as error:
                self.store.skip(self.run, index, str(error))
                self.report.message(f"left out {entry.name}: {error}")
                self._announce()
                continue
            self._check_shape(entry.name, x)
            wanted = entry.target_label if self.plan.spec.targeted else None
            task = Task(index, image_id(x, entry.label), x, entry.label, wanted, entry.name, past)
            self.store.enter(self.run, index, task.id, None if self.told.save == "none" else x)
            if past.unreadable is not None:
                self._announce()
            return task
        return None

    def waiting(self, most: int) -> int:
        if self.interrupt.wanted:
            return 0
        return self.store.claimable(self.run, self.plan.budget, self.limit, most)

    def give_back(self, indices: Collection[int]) -> None:
        self.store.release(self.run, indices)

    def commit(self, events: Sequence[Event]) -> None:
        """As Work.commit: commit events, tell about them, and stop the run if it is time to."""
        self.store.write(self.run, events)
        for event in events:
            self._count(event)
        if any(isinstance(event, Reserved) for event in events):
            return  # rows are about to be handed over: whoever wants to stop waits for their answers
        now = time.monotonic()
        self.answered = now if any(isinstance(event, Round) for event in events) else self.answered
        self.snapshot = replace(self.snapshot, seconds=now - self.began, silent=now - self.answered)
        self.report.progressed(self.snapshot)
        if self.failures >= max(FAILURES_IN_A_ROW, 2 * self._at_once):
            raise TargetFailedError(
                f"the target failed on {self.failures} images in a row, at last with {self.cause}. All answers so far "
                "are kept: mend it and give the same command to go on"
            )
        if self.interrupt.wanted:
            raise Stopped

    @property
    def _at_once(self) -> int:
        """How many images a worker attacks at once, at most."""
        spec, numbers = self.told.spec, 0 if self.shape is None else self.shape.numel()
        sharing = spec.attack.few_rows and "://" not in spec.target  # rows to a server share no pass
        return spec.concurrency or images_at_once(numbers, sharing=sharing)

    def finish(self) -> Finished:
        """What this process leaves."""
        if self.interrupt.wanted:
            raise Stopped
        counted = self._counted()
        elsewhere, skipped = self.store.held_by_others(self.run), self.store.skipped(self.run, self.limit)
        if elsewhere:
            self.report.message(f"{elsewhere} images of {self.plan.title} are with another process that still runs")
        if counted.failed:
            self.report.message(
                f"the target failed on {len(counted.failed)} images of {self.plan.title}, which do not count: the same "
                "command tries them again"
            )
        self._tell_replays()
        finished = Finished(self.plan, counted.rows, skipped, elsewhere, counted.failed)
        self.report.finished(self.snapshot, finished.summary)
        return finished

    def _announce(self) -> None:
        """Tell the store what is asked for: as many images as wanted, beside those that cannot be read; and tally."""
        before, (self.limit, self.count) = self.limit, self.store.begin(self.plan, self.path, self.images.entries)
        if before == self.limit:  # an image that cannot be read, or can again, ended no other
            self.snapshot = replace(self.snapshot, total=self.count)
            return
        rows = self._counted().rows
        self.snapshot = replace(
            self.snapshot,
            total=self.count,
            done=len(rows),
            fooled=sum(row.success for row in rows),
            already_wrong=sum(row.end is End.ALREADY_WRONG for row in rows),
            nonfinite=sum(row.end is End.NONFINITE for row in rows),
        )

    def _counted(self) -> Counted:
        return self.store.counted(self.run, self.plan.budget, self.count)

    def _check_shape(self, name: str, x: Tensor) -> None:
        """Raise InputError unless all images have one shape."""
        if self.shape is None:
            self.shape = x.shape
        if x.shape != self.shape:
            raise InputError(
                f"{name} is {tuple(x.shape)} but the first image is {tuple(self.shape)}, and the size that the target "
                "takes is not known: say it with --size, in the experiment ([images] size = 224), or behind the "
                "spec of your own code (#shape=3x224x224)"
            )

    def _tell_replays(self) -> None:
        """Say how exact the answers were that were used again."""
        inexact = sum(event.inexact for event in self.replayed)
        if inexact:
            answers, largest = sum(e.answers for e in self.replayed), max(e.largest for e in self.replayed)
            self.report.message(
                f"{inexact} of {answers} logged answers are about points that now differ by up to {largest:.1e}, which "
                "is rounding: they were used again"
            )

    def _count(self, event: Event) -> None:
        now = self.snapshot
        match event:
            case Round():
                self.snapshot = replace(
                    now, active=event.active, queries=now.queries + event.queries, busy=now.busy + event.busy
                )
            case Ended(row):
                self.failures = self.failures + 1 if row.end.failed else 0
                self.cause = row.cause or row.end.sentence
                self.snapshot = replace(
                    now,
                    done=now.done + (row.end is not End.TARGET_FAILED),
                    fooled=now.fooled + row.success,
                    already_wrong=now.already_wrong + (row.end is End.ALREADY_WRONG),
                    nonfinite=now.nonfinite + (row.end is End.NONFINITE),
                    here=now.here + 1,
                    seconds=time.monotonic() - self.began,
                )
                self.report.ended(self.snapshot, row)
            case Restarted(why=str(why)):
                self.report.message(why)
            case Replayed():
                self.replayed.append(event)
            case _:
                pass
