"""Progress bars of the command line: one a method, with images fooled and queries so far."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from dowse.observers import Progress


@contextmanager
def method_bars(titles: Sequence[str], images: int, console: Console) -> Iterator[Callable[[str, Progress], None]]:
    """A bar for each title over `images` images; yields the function that moves them by title and Progress."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[fooled]} fooled, {task.fields[queries]} queries"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=console) as bars:
        tasks = {title: bars.add_task(title, total=images, start=False, fooled=0, queries=0) for title in titles}

        def advance(title: str, progress: Progress) -> None:
            bars.start_task(tasks[title])
            bars.update(tasks[title], completed=progress.done, fooled=progress.fooled, queries=progress.queries)
            if progress.done == images:
                bars.stop_task(tasks[title])

        yield advance
