"""`dowse demo --quick`, which needs nothing but the package; completion, `--version` and `--open`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import dowse
from dowse.cli import app
from dowse.store import Store
from tests.stores import Made, make_store
from tests.victims import PROJECT


def test_the_quick_demo_ends_in_a_picture_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    few = ["--images", "2", "--budget", "30", "--threads", "1"]
    ended = CliRunner().invoke(app, ["demo", "--quick", "--out", str(tmp_path), "--open", *few])
    assert ended.exit_code == 0, ended.output
    with Image.open(tmp_path / "demo.png") as picture:
        assert min(picture.size) > 400
    assert "disc 0" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with Store(tmp_path) as store:
        assert [run.title for run in store.runs()] == ["RGF", "P-RGF", "Dowse"]
        assert len(list(store.rows())) == 6
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_the_version_is_written_once() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.strip() == dowse.__version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_shell_s_script(shell: str) -> None:
    ended = CliRunner().invoke(app, ["completion", shell])
    assert ended.exit_code == 0
    assert "_DOWSE_COMPLETE" in ended.output


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(app, ["completion", "cmd"]).exit_code == 2


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("dowse comp", {"compare", "completion"}),
        ("dowse methods simba", {"simba", "simba-ods"}),
        ("dowse attack --method prgf", {"prgf", "prgf-span"}),
    ],
)
def test_the_tab_key_completes_commands_and_methods(line: str, wanted: set[str]) -> None:
    """As bash asks, with `python -m dowse`."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_DOWSE_COMPLETE": "complete_bash"}
    environment = os.environ | asked | {"PYTHONPATH": str(PROJECT / "src")}
    command = [sys.executable, "-m", "dowse"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert set(told.stdout.split()) == wanted, told.stderr


def test_the_report_is_opened_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    make_store(tmp_path, [Made("RGF", [100, None])])
    assert CliRunner().invoke(app, ["report", str(tmp_path)]).exit_code == 0
    assert not opened
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--open"]).exit_code == 0
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_wandb_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    words = ["--target", "torch:dowse.models.shapes:classifier", "--images", "demo:shapes", "--wandb"]
    ended = CliRunner().invoke(app, ["attack", *words, "--out", str(tmp_path / "out")])
    assert ended.exit_code == 2
    assert "pip install 'dowse[wandb]'" in ended.output
