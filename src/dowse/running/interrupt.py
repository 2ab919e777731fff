"""Ctrl-C, the kind way: the first one asks the run to stop after its round, the second one stops it at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Whether somebody wants the run to stop."""

    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def interruptible(on_wish: Callable[[], None] = lambda: None) -> Iterator[Interrupt]:
    """Catch Ctrl-C and SIGTERM for a while; on_wish is called at the first. Only the main thread can do this."""
    interrupt = Interrupt()

    def caught(number: int, frame: FrameType | None) -> None:
        if interrupt.wanted:
            raise KeyboardInterrupt
        interrupt.wanted = True
        on_wish()

    before = {number: signal.signal(number, caught) for number in SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
