"""Requests in several threads, each of which asks the calling thread before it sends its rows again."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from dowse.targets.http.parcel import Parcel
from dowse.targets.http.retry import TargetError

GLANCE = 0.1  # seconds between two looks at whether the call was given up

Send = Callable[[slice, Callable[[], None]], Parcel]
"""Sends some rows; calls the function it is given before each time that it sends them again, and waits for it."""


class Permits:
    """The threads of one call; as it ends, in whatever way, those that still wait give up.

    Args:
        threads: Where requests are sent.
        tell: Called in the calling thread with the rows that are to be sent again; they may when it returns.

    Attributes:
        stop: Set when the call is over.
    """

    def __init__(self, threads: ThreadPoolExecutor, tell: Callable[[slice], None]) -> None:
        self._threads, self._tell = threads, tell
        self.stop = threading.Event()
        self._wishes: SimpleQueue[tuple[slice, threading.Event] | None] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()

    def map(self, send: Send, parts: Sequence[slice]) -> list[Parcel]:
        """What became of each part; parts are sent at the same time as far as there are threads."""
        futures = [self._threads.submit(send, part, partial(self._wish, part)) for part in parts]
        for future in futures:
            future.add_done_callback(self._done)
        left = len(futures)
        while left:
            wish = self._wishes.get()
            if wish is None:
                left -= 1
                continue
            rows, granted = wish
            self._tell(rows)
            granted.set()
        return [future.result() for future in futures]

    def _done(self, future: "Future[Parcel]") -> None:
        self._wishes.put(None)

    def _wish(self, rows: slice) -> None:
        granted = threading.Event()
        self._wishes.put((rows, granted))
        while not granted.wait(GLANCE):
            if self.stop.is_set():
                raise TargetError("the call was given up")
