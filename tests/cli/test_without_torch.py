"""What asks no network imports no torch, which takes seconds: to list, and to read a store."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores import Made, make_store

SCRIPT = """
import sys
from typer.testing import CliRunner
from dowse.cli import app
result = CliRunner().invoke(app, sys.argv[1:])
print(result.exit_code, *sorted({"torch", "numpy", "scipy", "matplotlib", "PIL"} & {*sys.modules}))
print(result.output)
"""


def loaded_by(*words: object) -> list[str]:
    """The heavy packages that a command imported, after its exit status."""
    command = [sys.executable, "-c", SCRIPT, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].split()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--help"], "0"),
        (["attack", "--help"], "0"),
        (["run", "--help"], "0"),
        (["methods"], "0"),
        (["methods", "prgf"], "0"),
        (["methods", "nope"], "2"),
        (["status", "nowhere"], "1"),
    ],
)
def test_words_alone_import_no_torch(words: list[str], status: str) -> None:
    assert loaded_by(*words) == [status]


@pytest.mark.parametrize(
    "words", [["status"], ["status", "--json"], ["rows"], ["rows", "--format", "json"], ["report"]]
)
def test_a_store_is_read_without_torch(tmp_path: Path, words: list[str]) -> None:
    make_store(tmp_path, [Made("RGF", [100, 200, None])])
    status, *loaded = loaded_by(words[0], tmp_path, *words[1:])
    assert status == "0"
    assert "torch" not in loaded


def test_a_store_is_packed_and_unpacked_without_torch(tmp_path: Path) -> None:
    make_store(tmp_path / "store", [Made("RGF", [100, 200, None])])
    file = tmp_path / "rows.jsonl"
    for words in (["pack", tmp_path / "store", file], ["unpack", file, "--out", tmp_path / "new"], ["status", file]):
        status, *loaded = loaded_by(*words)
        assert status == "0"
        assert "torch" not in loaded
