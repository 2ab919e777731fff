"""A run while it runs: gives out its images, takes in what happens to them, and keeps the tally."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch import Size, Tensor

from dowse.core.result import End, Summary, summarize
from dowse.core.seeds import image_id
from dowse.errors import InputError
from dowse.experiment.spec import PlannedRun
from dowse.images.image_set import UNREADABLE, ImageSource
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Reporter, Snapshot
from dowse.running.worker import Order
from dowse.store import Claim, Counted, Row, StoreWriter
from dowse.store.events import Ended, Event, Job, Replayed, Restarted, Round, Stopped
from dowse.store.logged_answer import LoggedAnswer

FAILURES_IN_A_ROW = 10  # so many images that the target fails on, and none in between, end a run


class TargetFailedError(RuntimeError):
    """The target fails on everything; what was answered is kept, and the images that failed are tried again later."""


@dataclass(frozen=True)
class Finished:
    """A run as this process leaves it.

    Attributes:
        plan: What was to be run.
        rows: The rows of its images that are done, cut to its budget.
        skipped: Images that could not be read, and why.
        elsewhere: Images that other processes still attack.
    """

    plan: PlannedRun
    rows: list[Row]
    skipped: dict[str, str]
    elsewhere: int

    @property
    def summary(self) -> Summary:
        """The run in numbers."""
        return summarize(self.rows)


@dataclass(frozen=True)
class Images:
    """An image set at the size that a target takes.

    Attributes:
        source: The set.
        size: The side; None keeps each image's own.
        path: Where the set is, for the record.
    """

    source: ImageSource
    size: int | None
    path: str


@dataclass
class RunUnderWay:
    """A run between the store, the engine and whoever is told."""

    plan: PlannedRun
    order: Order
    images: Images
    store: StoreWriter
    report: Reporter
    interrupt: Interrupt
    names: dict[int, str] = field(default_factory=dict)
    replayed: list[Replayed] = field(default_factory=list)
    failures: int = 0
    shape: Size | None = None

    def begin(self) -> None:
        """Make the run known and see how far it is."""
        self.began = time.monotonic()
        self.snapshot = Snapshot(run=self.plan.spec.id, title=self.plan.title, total=0)
        self._announce()
        self.report.began(self.snapshot)

    def jobs(self) -> Iterator[Job]:
        """Claim one image after the other; those that cannot be read are skipped and made up for."""
        while not self.interrupt.wanted and (claim := self.store.claim(self.plan, self.limit)) is not None:
            try:
                x = self.images.source.read(claim.position, self.images.size)
            except UNREADABLE as error:
                self._skip(claim, str(error))
                continue
            yield self._job(claim, x)

    def deliver(self, events: Sequence[Event]) -> None:
        """Commit events, tell about them, and stop the run if it is time to."""
        self.store.write(self.plan, events)
        for event in events:
            self._count(event)
        self.report.progressed(self.snapshot)
        if self.failures >= max(FAILURES_IN_A_ROW, 2 * self.plan.spec.concurrency):
            raise TargetFailedError(
                f"the target failed on {self.failures} images in a row, at last with {self.cause}. All answers so far "
                "are kept: mend it and give the same command to go on"
            )
        if self.interrupt.wanted:
            raise Stopped

    def finish(self) -> Finished:
        """What this process leaves."""
        if self.interrupt.wanted:
            raise Stopped
        run, counted = self.plan.spec.id, self._counted()
        elsewhere, skipped = self.store.held_by_others(run), self.store.skipped(run, self.limit)
        if elsewhere:
            self.report.message(f"{elsewhere} images of {self.plan.title} are with another process that still runs")
        failed = sum(row.end is End.TARGET_FAILED for row in counted.going_on)
        if failed:
            self.report.message(
                f"the target failed on {failed} images of {self.plan.title}, which do not count: the same command "
                "tries them again"
            )
        self._tell_replays()
        finished = Finished(self.plan, counted.rows, skipped, elsewhere)
        self.report.finished(self.snapshot, finished.summary)
        return finished

    def _announce(self) -> None:
        """Tell the store what is asked for: as many images as wanted, beside those that cannot be read; and tally."""
        self.limit, self.count = self.store.begin(self.plan, self.images.path, self.images.source.entries)
        rows = self._counted().rows
        self.snapshot = replace(
            self.snapshot,
            total=self.count,
            done=len(rows),
            fooled=sum(row.success for row in rows),
            already_wrong=sum(row.end is End.ALREADY_WRONG for row in rows),
        )

    def _counted(self) -> Counted:
        return self.store.counted(self.plan.spec.id, self.plan.budget, self.count)

    def _job(self, claim: Claim, x: Tensor) -> Job:
        entry = self.images.source.entries[claim.position]
        self._check_shape(entry.name, x)
        checksum = image_id(x, entry.label)
        answers, readable = _unpacked(claim.answers)
        sent, blocks = claim.sent, claim.answers
        if blocks and not (claim.checksum == checksum and readable and self.order.log_answers):
            if claim.checksum != checksum:
                self.report.message(f"{entry.name} is not the image it was: its attack starts anew")
            if not readable:
                self.report.message(f"the log of {entry.name} is damaged: its attack starts anew")
            void = sum(answer.sent for answer in answers)
            self.store.void(claim.task, void)
            sent, blocks = sent + void, ()
        self.store.enter(claim.task, checksum, None if self.order.save == "none" else x)
        if claim.skipped:
            self._announce()
        self.names[claim.task] = entry.name
        return Job(
            task=claim.task,
            id=checksum,
            x=x,
            label=entry.label,
            target_label=entry.target_label if self.plan.spec.targeted else None,
            budget=self.plan.budget,
            answers=blocks,
            sent=sent,
            seconds=answers[-1].seconds if answers else 0.0,
        )

    def _check_shape(self, name: str, x: Tensor) -> None:
        """Raise InputError unless all images have one shape."""
        if self.shape is None:
            self.shape = x.shape
        if x.shape != self.shape:
            raise InputError(
                f"{name} is {tuple(x.shape)} but the first image is {tuple(self.shape)}, and the size that the target "
                "takes is not known: say it in the experiment ([images] size = 224) or with --size"
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

    def _skip(self, claim: Claim, reason: str) -> None:
        name = self.images.source.entries[claim.position].name
        self.store.skip(claim.task, reason)
        self.report.message(f"left out {name}: {reason}")
        self._announce()

    def _count(self, event: Event) -> None:
        now = self.snapshot
        seconds = time.monotonic() - self.began
        match event:
            case Round():
                self.snapshot = replace(
                    now,
                    active=event.active,
                    queries=now.queries + event.queries,
                    busy=now.busy + event.busy,
                    seconds=seconds,
                )
            case Ended():
                self.failures = self.failures + 1 if event.end is End.TARGET_FAILED else 0
                self.cause = event.cause
                self.snapshot = replace(
                    now,
                    done=now.done + (event.end is not End.TARGET_FAILED),
                    fooled=now.fooled + (event.end is End.ADVERSARIAL),
                    already_wrong=now.already_wrong + (event.end is End.ALREADY_WRONG),
                    here=now.here + 1,
                    seconds=seconds,
                )
                self.report.ended(self.snapshot, self.names.pop(event.task), event)
            case Restarted():
                self.report.message(
                    f"{self.names[event.task]} starts anew: its {event.sent} logged rows are {event.distance:.1e} off"
                )
            case Replayed():
                self.replayed.append(event)
            case _:
                pass


def _unpacked(blocks: Sequence[bytes]) -> tuple[list[LoggedAnswer], bool]:
    """The answers of a log as far as they can be read, and whether all of them can."""
    answers = []
    for block in blocks:
        try:
            answers.append(LoggedAnswer.unpack(block))
        except ValueError:
            return answers, False
    return answers, True
