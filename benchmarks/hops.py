"""How many functions, in how many files, one image passes through: from `dowse run` to its row, and to the report.

    python -m benchmarks.hops

A hop is a function of dowse that is entered at least once: by name, without lambdas and comprehensions, and without
what runs when a module is imported. One image of 8×8 pixels is attacked with rgf in this process, a tiny network as
target, until its row is committed; then `dowse report` reads the store. The first run is for imports alone.

Beside that, how deep the calls are, functions of dowse alone, when the target is asked and when answer and row are
committed: the way itself, without what is called on it and returns. `--way` prints it, in the order of the calls.
"""

import argparse
import contextlib
import inspect
import io
import json
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

TARGET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1) @ torch.randn(192, 4, generator=torch.Generator().manual_seed(0))

def net():
    return Net().eval()
"""
EXPERIMENT = """
target = "torch:hops_target:net"
method = { name = "rgf", q = 5 }
budget = 60
images = "image.png"
"""

THE_WAY = "on the way itself, at these three moments together"
MOMENTS = {" INTO answers ": "when an answer is committed", " INTO rows ": "when the row is committed"}


class Watch:
    """Collects the code that is entered while it looks on, and how deep it is in at some moments."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()
        self.asked: set[CodeType] | None = None  # what is entered from the first question on
        self.depths: dict[str, list[CodeType]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self.seen.add(frame.f_code)
            if self.asked is not None:
                self.asked.add(frame.f_code)
                if frame.f_code.co_name == "forward" and frame.f_code.co_filename.endswith("hops_target.py"):
                    self.deep("when the target is asked")
            elif frame.f_code.co_name == "check" and frame.f_code.co_filename.endswith("flow.py"):
                self.asked = {frame.f_code}

    def deep(self, moment: str) -> None:
        """Keep the code that is on the stack now; at each moment for the first time."""
        frame: FrameType | None = sys._getframe(1)
        found: list[CodeType] = []
        while frame is not None:
            found.insert(0, frame.f_code)
            frame = frame.f_back
        self.depths.setdefault(moment, found)

    def start(self) -> None:
        self.seen.clear()
        self.asked = None
        self.depths.clear()
        sys.setprofile(self)

    def stop(self) -> None:
        sys.setprofile(None)


def by_file(entered: Iterable[CodeType]) -> dict[str, list[str]]:
    """The functions of dowse among the code entered, by file."""
    import dowse

    home, found = Path(dowse.__file__).parent, dict[str, list[str]]()
    for code in entered:
        path, is_function = Path(code.co_filename), code.co_flags & inspect.CO_NEWLOCALS
        if is_function and path.is_relative_to(home) and "<" not in code.co_qualname.rpartition("<locals>.")[2]:
            found.setdefault(str(path.relative_to(home)), []).append(code.co_qualname)
    return {path: sorted({*names}) for path, names in sorted(found.items())}


def in_order(stack: Iterable[CodeType]) -> str:
    """The functions of dowse on a stack, the outermost first."""
    told = (f"{path}: {name}" for code in stack for path, names in by_file([code]).items() for name in names)
    return "\n".join(f"    {line}" for line in told)


class Connection(sqlite3.Connection):
    """A database that ends the watch once a row is committed."""

    watch: Watch | None = None
    row = False

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        cursor = super().execute(statement, *values)
        for words, moment in MOMENTS.items():
            if words in statement and Connection.watch is not None:
                Connection.watch.deep(moment)
        self.row = self.row or " INTO rows " in statement
        if self.row and statement == "COMMIT" and Connection.watch is not None:
            Connection.watch.stop()
        return cursor


@contextlib.contextmanager
def connections_watched(watch: Watch | None) -> Iterator[None]:
    connect = sqlite3.connect
    Connection.watch = watch
    sqlite3.connect = lambda *words, **more: connect(*words, **more, factory=Connection)  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect, Connection.watch = connect, None


def command(*words: str) -> None:
    """A command line in this process, its words unheard."""
    from dowse.cli import app

    with contextlib.redirect_stdout(io.StringIO()):
        app(list(words), standalone_mode=False)


def count(folder: Path, ways: dict[str, str]) -> dict[str, dict[str, list[str]]]:
    """The hops to the row and to the report, by file; `ways` is filled with the stack at each moment."""
    from PIL import Image

    (folder / "hops_target.py").write_text(TARGET)
    (folder / "hops.toml").write_text(EXPERIMENT)
    Image.effect_noise((8, 8), 80).convert("RGB").save(folder / "image.png")
    sys.path.insert(0, str(folder))
    found, watch = {}, Watch()
    for out in ("imports", "watched"):
        with contextlib.chdir(folder), connections_watched(watch if out == "watched" else None):
            watch.start()
            command("run", "hops.toml", "--out", out)
            watch.stop()
            found["from `dowse run` to the row"] = by_file(watch.seen)
            found["from the first question to the row"] = by_file(watch.asked or set())
            found |= {moment: by_file(entered) for moment, entered in watch.depths.items()}
            found[THE_WAY] = by_file(code for stack in watch.depths.values() for code in stack)
            ways.update({moment: in_order(stack) for moment, stack in watch.depths.items()})
            watch.start()
            command("report", out)
            watch.stop()
            found["from `dowse report` to the page"] = by_file(watch.seen)
    return found


def main() -> None:
    """Print the numbers, or the hops themselves as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print every hop")
    parser.add_argument("--way", action="store_true", help="print the way itself")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, str] = {}
        found = count(Path(folder), ways)
    if words.json:
        print(json.dumps(found, indent=1))
        return
    for moment, way in ways.items() if words.way else ():
        print(f"{moment}:\n{way}")
    for name, files in found.items():
        print(f"{name}: {sum(map(len, files.values()))} functions in {len(files)} files")


if __name__ == "__main__":
    main()
