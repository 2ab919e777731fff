"""`dowse pack` and `dowse unpack` as a person uses them; damaged, foreign and newer files are refused by their line."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dowse.cli import app
from dowse.store.packed_file import _last, _line
from tests.stores import Made, make_store
from tests.victims import PROJECT

Lines = list[Any]


def invoked(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", [Made("P-RGF", [10, 20, None]), Made("RGF", [100, 200, 300])])


@pytest.fixture
def file(store: Path, tmp_path: Path) -> Path:
    assert invoked("pack", store, tmp_path / "rows.jsonl")[0] == 0
    return tmp_path / "rows.jsonl"


def test_there_and_back(store: Path, file: Path, tmp_path: Path) -> None:
    assert invoked("pack", store, file) == (0, f"{file}: 2 runs, 6 rows, 0 new; {file.stat().st_size / 1e3:.1f} kB")
    assert invoked("unpack", file, "--out", tmp_path / "new") == (0, f"{tmp_path}/new: 2 runs, 6 rows, 6 new")
    assert invoked("unpack", file, file, "-o", tmp_path / "new") == (0, f"{tmp_path}/new: 2 runs, 6 rows, 0 new")
    for place in (file, tmp_path / "new"):
        status, output = invoked("status", place, "--json")
        assert status == 0
        assert [(run["title"], run["done"]) for run in json.loads(output)["runs"]] == [("P-RGF", 3), ("RGF", 3)]
        assert invoked("rows", place)[1].count("P-RGF") == 3


@pytest.mark.parametrize("form", ["html", "csv", "json", "latex", "markdown"])
def test_a_file_is_reported_like_a_store(store: Path, file: Path, tmp_path: Path, form: str) -> None:
    status, output = invoked("report", file, "--format", form, "--out", tmp_path / "page")
    assert status == 0, output
    text = (tmp_path / "page").read_text()
    assert "P-RGF" in text
    assert invoked("compare", store, file)[0] == 0


def test_a_page_of_a_file_lies_beside_it_and_says_what_it_lacks(file: Path) -> None:
    status, output = invoked("report", file)
    assert (status, output) == (0, str(file.with_suffix(".html")))
    page = file.with_suffix(".html").read_text()
    assert "no pictures and traces" in page


def change(place: int, *path: Any, to: Any) -> Callable[[Lines], None]:
    def changed(lines: Lines) -> None:
        value = lines[place]
        for word in path[:-1]:
            value = value[word]
        value[path[-1]] = to
        lines[-1] = _last([_line(one) for one in lines[:-1]], lines[-1]["rows"])

    return changed


# lines: 0 head, 1 process, 2 run, 3 to 5 rows, 6 run, 7 to 9 rows, 10 end; people count from 1
BAD: dict[str, tuple[Callable[[Lines], None], str]] = {
    "empty": (lambda lines: lines.clear(), "ends after line 0"),
    "foreign": (change(0, "format", to="other"), "line 1: no packed store.*dowse pack DIR FILE"),
    "a list": (lambda lines: lines.__setitem__(0, [1]), "line 1: no packed store"),
    "newer": (change(0, "version", to=2), "line 1: it has the format 2, this version of dowse reads 1"),
    "other columns": (change(0, "columns", to=["position"]), "line 1: its columns are not those"),
    "cut short": (lambda lines: lines.pop(), "ends after line 10 without its last line: it was cut short"),
    "no rows any more": (lambda lines: lines.__delitem__(slice(2, 11)), "ends after line 2"),
    "a row less": (lambda lines: lines.pop(4), "line 10: the lines before are not those"),
    "a digit": (lambda lines: lines[3].__setitem__(4, 11), "line 11: the lines before are not those"),
    "more": (lambda lines: lines.append(lines[3]), "line 12: something follows the last line"),
    "no JSON": (lambda lines: lines.__setitem__(4, "{x"), "line 5: not JSON"),
    "half a character": (lambda lines: lines.__setitem__(4, '["\\ud800"]'), "line 5: not JSON"),
    "deep": (lambda lines: lines.__setitem__(4, "[" * 100_000), "line 5: not JSON"),
    "a number": (lambda lines: lines.__setitem__(4, "7"), "line 5: neither a process"),
    "a row without a run": (lambda lines: lines.insert(1, lines[3]), "line 2: neither a process"),
    "a row twice": (lambda lines: lines.insert(4, lines[3]), "line 5: image 0 of run .* twice"),
    "a run twice": (lambda lines: lines.insert(6, lines[2]), "line 7: run .* twice"),
    "a run's content": (change(2, "content", "norm", to="linf"), "line 3: run .* the hash of its content"),
    "no content": (change(2, "content", to={}), "line 3: the content of run .* lacks 'target'"),
    "a run's id": (change(2, "run", to="../../x"), "line 3: run '../../x' does not have the hash"),
    "a budget": (change(2, "budget", to="many"), "line 3: budget='many' is not int"),
    "a count": (change(2, "count", to=-1), "line 3: .*count=-1 count and cannot be below 0"),
    "a newer word": (change(2, "colour", to=1), "line 3: 'colour' is unknown here: use the version"),
    "beside": (change(2, "beside", "colour", to=1), "line 3: 'colour' is unknown here"),
    "skipped": (change(2, "skipped", to=[[1]]), "line 3: skipped holds"),
    "a process": (change(1, "queries", to=True), "line 2: queries=True is not int"),
    "its command": (change(1, "command", to=["rm"]), "line 2: process .* the hash of what is said of it"),
    "no process": (lambda lines: lines.pop(1), "line 3: no process"),
    "a column more": (change(3, 15, to={"colour": 1}), "line 4: the column 'colour' is unknown here"),
    "columns": (lambda lines: lines[3].__delitem__(slice(2)), "line 4: a row has 15 columns"),
    "an end": (change(3, 3, to="won"), "line 4: end='won' is not End"),
    "queries": (change(3, 4, to=-1), "line 4: queries=-1 counts"),
    "beyond 64 bits": (change(3, 4, to=2**63), "line 4: queries=.* is not int"),
    "a distance": (change(3, 9, to="far"), "line 4: l2='far' is not float"),
    "a long distance": (change(3, 9, to=10**400), "line 4: l2=.* is not float"),
    "NaN": (change(3, 9, to=float("nan")), "line 4: l2=nan is not float"),
    "a checksum": (change(3, 2, to="../../../etc/passwd"), "line 4: checksum='../../../etc/passwd' is none"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_not_whole_is_refused_by_its_line_and_nothing_is_taken(
    store: Path, file: Path, tmp_path: Path, name: str
) -> None:
    spoil, message = BAD[name]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    spoil(lines)
    file.write_text("\n".join(line if isinstance(line, str) else _line(line) for line in lines))
    before = file.read_bytes()
    for words in (["unpack", file, "--out", tmp_path / "new"], ["pack", store, file], ["status", file]):
        status, output = invoked(*words)
        assert status == 2, output
        assert re.search(message, output), output
    assert not (tmp_path / "new").exists()
    assert file.read_bytes() == before


def test_one_bad_file_of_several_and_nothing_is_taken(file: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}")
    assert invoked("unpack", file, tmp_path / "bad.jsonl", "--out", tmp_path / "new")[0] == 2
    assert not (tmp_path / "new").exists()


def test_windows_line_ends_are_read(file: Path, tmp_path: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert invoked("unpack", file, "--out", tmp_path / "new")[0] == 0


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["pack", "nowhere", "x.jsonl"], 1, "there is no store in nowhere"),
        (["pack", "store", "x.toml"], 2, "x.toml, line 1: not JSON.*Nothing of it was taken"),
        (["pack", "store", "store"], 2, "cannot write store"),
        (["pack", "store", "x.toml/rows.jsonl"], 2, "cannot write x.toml/rows.jsonl"),
        (["pack", "picture.png", "new.jsonl"], 2, "picture.png is no packed store"),
        (["unpack", "nowhere.jsonl", "--out", "new"], 2, "cannot read nowhere.jsonl"),
        (["unpack", "store", "--out", "new"], 2, "cannot read store"),
        (["unpack", "store/dowse.sqlite", "--out", "new"], 2, "is no packed store"),
        (["unpack", "rows.jsonl", "--out", "x.toml"], 1, "cannot write to x.toml"),
        (["unpack", "rows.jsonl", "--out", ""], 2, "a folder needs a name"),
        (["unpack", "rows.jsonl"], 2, "--out"),
    ],
)
def test_bad_words(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text('target = "dowse:x"\n')
    Path("picture.png").write_bytes(b"\x89PNG\xff\xfe")
    got, output = invoked(*words)
    assert (got, bool(re.search(message, output))) == (status, True), output
    assert Path("x.toml").read_text() == 'target = "dowse:x"\n'
    assert not Path("new").exists()


KILLED = """
import os, pathlib, signal, sys
from typer.testing import CliRunner
from dowse.cli import app

def half(self, text, **more):
    with open(self, "w") as file:
        file.write(text[: len(text) // 2])
    os.kill(os.getpid(), signal.SIGKILL)

pathlib.Path.write_text = half
CliRunner().invoke(app, sys.argv[1:])
"""


def test_a_kill_while_it_is_written_leaves_the_old_file(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    more = make_store(tmp_path / "more", [Made("P-RGF", [10, 20, None, 40])])
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    done = subprocess.run([sys.executable, "-c", KILLED, "pack", more, file], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert file.read_bytes() == before
    assert invoked("pack", more, file)[0] == 0
    assert file.read_bytes() != before
