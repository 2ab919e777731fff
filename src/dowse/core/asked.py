"""Requests on their way to the target: what was asked, what has come of it so far, and who is told of rows that go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from dowse.core.reply import PartialReply, Request
from dowse.core.reservation import Reservation, Reserve


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
