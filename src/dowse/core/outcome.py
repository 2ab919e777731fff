"""How an attack on an image ended."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a store is read without torch, which takes seconds to import
    from torch import Tensor


class End(StrEnum):
    """Why the conversation about an image ended; `sentence` says it to the reader."""

    ADVERSARIAL = "adversarial"
    BUDGET = "budget"
    EXHAUSTED = "exhausted"
    DETECTED = "detected"
    ALREADY_WRONG = "already_wrong"
    NONFINITE = "nonfinite"
    TARGET_FAILED = "target_failed"

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return _SENTENCES[self]

    @property
    def failed(self) -> bool:
        """Whether the target is at fault, so that it tells nothing about how robust the image is."""
        return self in (End.NONFINITE, End.TARGET_FAILED)

    @property
    def attacked(self) -> bool:
        """Whether the image counts: it was there to be attacked, and the target answered."""
        return self is not End.ALREADY_WRONG and not self.failed


_SENTENCES = {
    End.ADVERSARIAL: "An adversarial image was found inside the ball.",
    End.BUDGET: "The next question would have cost more queries than the budget has left.",
    End.EXHAUSTED: "The method gave up before the budget was spent.",
    End.DETECTED: "A query was refused as too like an earlier one, and the account was blocked.",
    End.ALREADY_WRONG: "The target misclassifies the image unchanged, so there was nothing to attack.",
    End.NONFINITE: "The target answered with NaN or infinite scores: look for a division by zero, or a "
    "logarithm of zero; a class that is masked may have -1e4.",
    End.TARGET_FAILED: "The target raised an error instead of answering.",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one image.

    Attributes:
        index: Its position among the images given.
        id: Its name, from which its random stream is drawn.
        end: Why it ended.
        queries: Rows the target answered.
        sent: Rows handed to the target.
        budget: The most queries it was allowed.
        label: The label it was attacked as; the target's own if none was given, None if it was never answered.
        adversarial: The adversarial image, or the last iterate, which lies in the ball, (*s).
        distance: ‖adversarial − x‖ in the attack's norm.
        loss: f at `adversarial`, NaN if it was never answered.
        cause: What the target raised, for TARGET_FAILED.
        value: What the flow returned, if it ended by itself.
        verified: How many of the `verify=` re-checks of a success were adversarial too; these rows are in `sent` alone.
        refused: Rows among `queries` that a detector refused.
        queries_until_detected: Which query was the first of them, counted from 1; None if none was refused.
    """

    index: int
    id: str
    end: End
    queries: int
    sent: int
    budget: int
    label: int | None
    adversarial: "Tensor"
    distance: float
    loss: float
    cause: Exception | None = None
    value: Any = None
    verified: int = 0
    refused: int = 0
    queries_until_detected: int | None = None

    @property
    def success(self) -> bool:
        """Whether an adversarial image was found."""
        return self.end is End.ADVERSARIAL
