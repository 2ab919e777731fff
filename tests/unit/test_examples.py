"""Every script of examples/ runs to its end; they check themselves with assertions."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_there_are_three() -> None:
    assert [path.stem for path in EXAMPLES] == ["compare_defences", "own_model", "write_attack"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    runpy.run_path(str(path), run_name="example")
    assert "fooled" in capsys.readouterr().out or path.stem == "compare_defences"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_in_cells(path: Path) -> None:
    cells = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# %%")]
    assert len(cells) >= 4
    assert all(len(line) > len("# %% ") for line in cells), "a cell says what it is about"
