"""Rows are told of before they go: all of a round at first, and those that a target sends again once more."""

from collections.abc import Callable, Sequence

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
