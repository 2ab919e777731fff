"""Ctrl-C, the kind way: the first one asks the run to stop after its round, the second one stops it at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Whether the run is to stop after its round.

    Attributes:
        wanted: Whether it is.
        late: Whether that is because its time is over.
    """

    def __init__(self) -> None:
        self.wanted = self.late = False

    @contextmanager
    def after(self, seconds: float | None) -> Iterator[None]:
        """Let it want to stop by itself when so many seconds are over; None lets it be."""
        timer = None if seconds is None else threading.Timer(seconds, self._over)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _over(self) -> None:
        self.late = not self.wanted
        self.wanted = True


@contextmanager
def interruptible(on_wish: Callable[[], None] = lambda: None) -> Iterator[Interrupt]:
    """Catch Ctrl-C and SIGTERM for a while; on_wish is called at the first. Only the main thread can do this."""
    interrupt = Interrupt()

    def caught(number: int, frame: FrameType | None) -> None:
        if interrupt.wanted and not interrupt.late:
            raise KeyboardInterrupt
        interrupt.wanted, interrupt.late = True, False
        on_wish()

    before = {number: signal.signal(number, caught) for number in SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
