"""Requests on their way to the target: what was asked, what has come of it, and who is told of rows before they go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Self

from dowse.core.reply import PartialReply, Request

Reserve = Callable[[Sequence[int]], None]
"""Is told how many rows of each request are about to be handed over, before the target has one of them."""


class Reservation:
    """What is told of the rows of several requests, and to whom.

    Args:
        reserve: Who is told; None tells nobody.
        rows: How many rows each request has.
        told: Whether that was told already.
    """

    def __init__(self, reserve: Reserve | None, rows: Sequence[int], *, told: bool = False) -> None:
        self.reserve, self.requests = reserve, len(rows)
        self.refused: Exception | None = None
        self._owners: list[int] = []
        if reserve is not None and rows and not told:
            reserve(rows)

    def calling(self, owners: list[int]) -> None:
        """A call of the target begins; its rows belong to these requests, by number."""
        self._owners = owners

    def again(self, rows: slice) -> None:
        """These rows of the call under way are about to be handed over once more; what that raises is in `refused`."""
        if self.reserve is None:
            return
        owners = self._owners[rows]
        try:
            self.reserve([owners.count(number) for number in range(self.requests)])
        except Exception as refused:
            self.refused = refused
            raise


@dataclass(eq=False)
class Asked:
    """Requests that travel together.

    Attributes:
        requests: As they were made.
        rows: The same row by row, each as often as it is sent.
        reservation: Tells of rows before they go.
        progress: What has come of each request.
    """

    requests: Sequence[Request]
    rows: Sequence[Request]
    reservation: Reservation
    progress: list[PartialReply]

    @classmethod
    def of(cls, requests: Sequence[Request], reserve: Reserve | None, *, told: bool = False) -> Self:
        """Requests about to be handed over; `reserve` hears of all their rows now, unless it was `told` already."""
        rows = [request if request.repeats == 1 else request.rows() for request in requests]
        reservation = Reservation(reserve, [request.n for request in rows], told=told)
        return cls(requests, rows, reservation, [PartialReply() for _ in requests])

    def pieces(self, most: int, size: int) -> list["Asked"]:
        """The rows of the only request in up to `most` pieces, to be sent side by side, cut where passes end."""
        (request,), passes = self.rows, ceil(self.rows[0].n / size)
        if (number := min(most, passes)) == 1:
            return [self]
        ends = [min(request.n, size * (passes * i // number)) for i in range(number)] + [request.n]
        return [Asked.of([request.cut(*rows)], self.reservation.reserve, told=True) for rows in pairwise(ends)]

    def join(self, pieces: Sequence["Asked"]) -> None:
        """Take over what has come of all pieces."""
        got = [only for piece in pieces for only in piece.progress]
        self.progress = [
            PartialReply(
                [scores for one in got for scores in one.scores],
                [gradients for one in got for gradients in one.gradients],
                sum(one.sent for one in got),
                sum(one.answered for one in got),
                next((one.cause for one in got if one.cause is not None), None),
            )
        ]
