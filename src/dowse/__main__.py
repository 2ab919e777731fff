"""The command `dowse`, and `python -m dowse`: what has to happen before anything large is imported."""

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130  # the exit status after Ctrl-C
IMPORTING = "importlib._bootstrap"  # the module of the frames that import another


def main() -> None:
    """The command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _interrupted)
    try:
        from dowse.machine.cpu import wait_without_spinning

        wait_without_spinning()
        from dowse.cli import app

        app(prog_name="dowse")
    except KeyboardInterrupt:
        _leave()


def _interrupted(number: int, frame: "FrameType | None") -> None:
    """Ctrl-C while a module is imported ends the process at once.

    As an exception it would be printed, swallowed or turned into another one by whatever is half imported; and as long
    as modules are imported nothing has begun that could be finished.
    """
    while frame is not None:
        if frame.f_globals.get("__name__") == IMPORTING:
            _leave()
        frame = frame.f_back
    raise KeyboardInterrupt


def _leave() -> None:
    os.write(2, b"stopped\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
