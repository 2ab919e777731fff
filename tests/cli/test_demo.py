"""`dowse demo`: real nets on real photographs end in a table, a picture and a report."""

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from dowse import models
from dowse.cli import app
from dowse.cli.demo import SURROGATE, TARGET
from dowse.errors import InputError
from dowse.images.sources import photographs
from dowse.store import Store


@pytest.fixture(autouse=True)
def packages() -> None:
    try:
        photographs()
        for name in (TARGET, SURROGATE):
            models.locate(name)
    except InputError as missing:
        pytest.skip(f"the demo's packages are not installed: {missing}")


def test_the_demo_shows_what_it_did(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    ended = CliRunner().invoke(app, ["demo", "--out", str(out), "--images", "2", "--budget", "60", "--threads", "1"])
    assert ended.exit_code == 0, ended.output
    for said in ("RGF", "Dowse", str(out / "demo.png"), str(out / "report.html")):
        assert said in ended.output
    with Image.open(out / "demo.png") as picture:
        assert min(picture.size) > 500
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Dowse" in page
    with Store(out) as store:
        assert [run.title for run in store.runs()] == ["RGF", "P-RGF", "Dowse"]
        assert len(list(store.rows())) == 6
    again = CliRunner().invoke(app, ["demo", "--out", str(out), "--images", "2", "--budget", "60", "--threads", "1"])
    assert again.exit_code == 0, again.output


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert ended.exit_code != 0
    assert "--out" in ended.output
