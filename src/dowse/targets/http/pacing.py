"""The pace of requests: how many rows a second, how many requests at once, and when one is sent again."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


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


class TargetError(RuntimeError):
    """A target did not answer; the message says what was tried, what came of it and what to do."""


class Failure(Exception):  # noqa: N818 one attempt's end; whether it is an error is decided later
    """One request that was not answered.

    Attributes:
        transient: Whether the same request may be answered later.
        handed_over: Whether the server may have seen it.
        status: The HTTP status it was refused with, if it was.
        retry_after: Seconds after which the server asks to be tried again.
    """

    def __init__(
        self,
        reason: str,
        *,
        transient: bool = False,
        handed_over: bool = True,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.transient, self.handed_over, self.status, self.retry_after = transient, handed_over, status, retry_after


@dataclass(frozen=True)
class Backoff:
    """Waits between attempts: they double, are drawn from the upper half, and end.

    Attributes:
        retries: How often a request is tried again.
        first: The longest wait before the first retry, in seconds.
        longest: The longest wait of all; a server that asks for more is given up.
    """

    retries: int = 5
    first: float = 0.5
    longest: float = 60.0

    def wait(self, failures: int, failure: Failure, draw: Callable[[], float]) -> float | None:
        """Seconds to wait after so many failures, the last of which is given; None if it is not worth another try.

        The draw, in [0, 1), keeps clients that failed together from coming back together.
        """
        if not failure.transient or failures > self.retries:
            return None
        if failure.retry_after is not None and failure.retry_after > self.longest:
            return None
        wait = min(self.longest, self.first * 2.0 ** (failures - 1)) * (0.5 + 0.5 * draw())
        return max(wait, failure.retry_after or 0.0)


def read_retry_after(text: str | None, now: datetime | None = None) -> float | None:
    """The seconds that a Retry-After header asks for, as a number or as a date; None if it says neither."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
