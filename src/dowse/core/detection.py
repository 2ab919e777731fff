"""What a service that remembers its queries does: fingerprints, the memory of an account, and what is refused."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from dowse.errors import choose

Account = Literal["image", "run"]
Then = Literal["end", "refuse"]


@dataclass(frozen=True, kw_only=True)
class Detector:
    """How a service tells that a query is like an earlier one of the same account, and what it does about it.

    Attributes:
        account: Whose queries are remembered together: those of one image's attack, or those of the whole run.
        then: What a refusal does: "end" blocks the account, which ends the image; after "refuse" the attack goes on
            without an answer to that query.
    """

    account: Account = "image"
    then: Then = "end"

    def __post_init__(self) -> None:
        choose("account", self.account, get_args(Account))
        choose("then", self.then, get_args(Then))

    def fingerprint(self, x: Tensor) -> Hashable:
        """What is remembered of a query, (C, H, W); it depends on that alone."""
        raise NotImplementedError

    def alike(self, one: Any, other: Any) -> bool:
        """Whether the queries of two fingerprints are so alike that the later one is refused."""
        raise NotImplementedError


class Shown(NamedTuple):
    """What became of the rows of one question as they were shown to a memory, one after the other.

    Attributes:
        refused: The rows that get no answer, (n,) bool: those refused and, where a refusal ends the image, those after
            the first one, which are never asked.
        asked: How many rows were asked before that end: n where there is none.
        new: The fingerprints that the memory did not have before.
    """

    refused: Tensor
    asked: int
    new: tuple[Hashable, ...]


@dataclass
class Memory:
    """The queries of one account, refused ones too, by their fingerprints."""

    detector: Detector
    _seen: dict[Hashable, None] = field(default_factory=dict)

    def show(self, points: Tensor) -> Shown:
        """Show it queries, (n, *s), in order; a row may be like one before it in the same question."""
        refused, new = torch.zeros(len(points), dtype=torch.bool), []
        for row, x in enumerate(points.detach().cpu()):
            fingerprint = self.detector.fingerprint(x)
            # the latest first: an attack's queries are most like those just before them
            refused[row] = any(self.detector.alike(fingerprint, other) for other in reversed(self._seen))
            if fingerprint not in self._seen:
                self._seen[fingerprint] = None
                new.append(fingerprint)
            if refused[row] and self.detector.then == "end":
                refused[row:] = True
                return Shown(refused, row + 1, tuple(new))
        return Shown(refused, len(points), tuple(new))

    def forget(self, shown: Shown) -> None:
        """A question failed behind the detector and will be asked again: it leaves nothing."""
        for fingerprint in shown.new:
            self._seen.pop(fingerprint, None)
