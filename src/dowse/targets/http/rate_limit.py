"""A limit on how many rows are handed over in a second, shared by all that send."""

import threading
import time
from collections.abc import Callable


class RateLimit:
    """Says how long to wait, so that rows go out at `rate` a second and never faster.

    Rows that go together are paid for by the wait before the next ones: between two requests lie at least as many
    seconds as the rows of the first take at that rate. Several threads may ask.

    Args:
        rate: Rows a second; None does not limit.
        clock: Seconds, from any start.
    """

    def __init__(self, rate: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds_per_row = 0.0 if rate is None else 1 / rate
        self._clock = clock
        self._free = clock()
        self._lock = threading.Lock()

    def reserve(self, rows: int) -> float:
        """Take the next place for so many rows; the seconds to wait until it comes."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free)
            self._free = start + rows * self._seconds_per_row
            return start - now

    def hold(self, seconds: float) -> None:
        """Let nothing go that is not under way for so many seconds, as a server that is overrun asks for."""
        with self._lock:
            self._free = max(self._free, self._clock() + seconds)
