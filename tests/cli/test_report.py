"""`dowse report` and `dowse compare`, as a person uses them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dowse.cli import app
from tests.stores import Made, make_store


def dowse(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_store(tmp_path / "out", [Made("RGF", [9, 8, None]), Made("P-RGF", [3, 2, 1])])


def test_the_page_goes_into_the_folder_and_its_path_is_printed(folder: Path) -> None:
    result = dowse("report", folder)
    assert (result.exit_code, result.output.strip()) == (0, str(folder / "report.html"))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_where_and_how_can_be_said(folder: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("zero\nmy own class\n")
    file = tmp_path / "x" / "page.html"
    result = dowse(
        "report", folder, "--out", file, "--title", "Mine", "--gallery", 1, "--budget", 5, "--classes", names
    )
    assert result.exit_code == 0, result.output
    assert "<h1>Mine</h1>" in file.read_text()
    assert "my own class" in file.read_text()


@pytest.mark.parametrize(("form", "begin"), [("csv", "norm,"), ("json", "{"), ("latex", "% "), ("markdown", "# ")])
def test_text_is_printed_or_written(folder: Path, tmp_path: Path, form: str, begin: str) -> None:
    printed = dowse("report", folder, "--format", form)
    assert (printed.exit_code, printed.output.startswith(begin)) == (0, True)
    written = dowse("report", folder, "--format", form, "--out", tmp_path / "file")
    assert written.output.strip() == str(tmp_path / "file")
    assert (tmp_path / "file").read_text() == printed.output


def test_compare(folder: Path) -> None:
    assert "differs: nothing" in dowse("compare", folder, folder).output
    assert len(json.loads(dowse("compare", folder, folder, "--format", "json").output)["matches"]) == 2


@pytest.mark.parametrize("command", [("report", "missing"), ("compare", "missing", "missing")])
def test_no_store_is_an_error_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = dowse(*command)
    assert result.exit_code == 1
    assert "error: there is no store in missing" in result.output


def test_class_names_that_cannot_be_read(folder: Path) -> None:
    result = dowse("report", folder, "--classes", folder / "none.txt")
    assert result.exit_code == 2
    assert "cannot read class names" in result.output
