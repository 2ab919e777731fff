"""A task: one image of a run, under this name from the queue to its row; plain data that can cross processes."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Past:
    """What is known of a task from earlier attempts at it.

    Attributes:
        image: The id it had then, a checksum of its pixels and label; None if it was never read.
        answers: What was paid for, in order, each as `dowse.store.logged_answer` packs it.
        sent: Rows handed to the target for answers that are void or never came.
        unreadable: Why the image could not be read when that was last tried; None if it could.
    """

    image: str | None = None
    answers: tuple[bytes, ...] = ()
    sent: int = 0
    unreadable: str | None = None


@dataclass(frozen=True)
class Task:
    """One image of a run.

    Attributes:
        index: Its place among the images of the run.
        id: With the seed and the method it keys the task's random stream; mostly a checksum of pixels and label.
        x: The image, (*s) in [0, 1].
        label: Its true label; None takes the target's own with the first query.
        target_label: The class wanted of a targeted attack.
        name: What people call it: its file, or its number.
        past: What earlier attempts left.
    """

    index: int
    id: str
    x: Tensor
    label: int | None
    target_label: int | None
    name: str = ""
    past: Past = Past()
