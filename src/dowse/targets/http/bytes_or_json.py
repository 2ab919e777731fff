"""Whether a server takes tensors as bytes or as JSON only: found out by trying, settled by what it answers."""

from dowse.targets.http.pacing import Failure

NOT_THE_ENCODING = (401, 403, 404, 408, 425, 429)
ENOUGH_DOUBTS = 2  # a 500 may mean "I cannot read this" or pass by itself: so many of them tell


class Encoding:
    """What is known about a server's encoding.

    A refusal that says "unreadable" (most of 4xx, 501) followed by an answer to the same rows as JSON settles it. A 500
    may also have been a fault in passing, so it takes two of them, each followed at once by an answer in JSON.

    Args:
        binary: Whether tensors travel as bytes; None finds out.

    Attributes:
        binary: Whether they do; None as long as that is open, and bytes are tried first.
    """

    def __init__(self, binary: bool | None) -> None:
        self.binary = binary
        self._doubts = 0

    def suspects(self, failure: Failure) -> bool:
        """Whether a refusal of bytes can mean that the server does not take them."""
        status = failure.status or 0
        unreadable = (400 <= status < 500 and status not in NOT_THE_ENCODING) or status in (500, 501)
        return self.binary is None and unreadable

    def learn(self, binary: bool, refusal: Failure | None = None) -> None:
        """An answer came to tensors in this encoding, right after that refusal of the same rows as bytes."""
        if self.binary is not None:
            return
        if binary:
            self.binary = True
        elif refusal is not None:
            self._doubts += ENOUGH_DOUBTS if not refusal.transient else 1
            self.binary = False if self._doubts >= ENOUGH_DOUBTS else None
