"""How a command fails: a message on standard error and an exit status, never a traceback for what a user can mend."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

WRONG_INPUT, FAILED, INTERRUPTED = 2, 1, 130


@contextmanager
def failing_kindly() -> Iterator[None]:
    """Turn errors that explain themselves into a line on standard error and an exit status."""
    from dowse.errors import InputError, TargetFailedError, WorkerFailedError
    from dowse.store import StoreError

    try:
        yield
    except InputError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(WRONG_INPUT) from None
    except (StoreError, TargetFailedError, WorkerFailedError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        typer.echo("stopped at once; what was committed is kept", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def computing() -> Iterator[None]:
    """`failing_kindly` around forward passes, whose memory is kept for the next one."""
    from dowse.machine.cpu import ensure_fast_malloc

    ensure_fast_malloc()
    with failing_kindly(), _own_warnings_in_a_line():
        yield


@contextmanager
def _own_warnings_in_a_line() -> Iterator[None]:
    """Say this package's warnings without the place in its code, which is no news to who typed a command."""
    show = warnings.showwarning

    def say(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category.__module__.partition(".")[0] == "dowse":
            typer.echo(f"warning: {message}", err=True)
        else:
            show(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield
