"""`dowse audit`: a sentence, a page, a gate with its status, files for build servers; the same command goes on."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from dowse.cli import app
from dowse.cli.audit import NOT_MET
from dowse.store import Store
from tests.victims import PROJECT, ROWS, SURROGATE, TARGET, image_file, rows_seen

BALLS = ("--eps", "{l2 = 0.5, linf = 0.15}")


def dowse(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """A tiny model on three pictures without labels."""
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    monkeypatch.setenv("COLUMNS", "200")
    images = image_file(tmp_path, 3)
    return ("--target", TARGET, "--images", images, "--out", tmp_path / "out", "--budget", 40, *BALLS)


def test_a_sentence_a_page_and_files(tmp_path: Path, few: tuple[object, ...]) -> None:
    files = ("--json", tmp_path / "a.json", "--junit", tmp_path / "a.xml", "--html", tmp_path / "a.html")
    ended = dowse(*few, "--surrogate", SURROGATE, *files, "--require", "half >= 1", "--name", "tiny")
    assert ended.exit_code == 0, ended.output + str(ended.exception)
    said = json.loads((tmp_path / "a.json").read_text())
    assert (said["model"], list(said["norms"]), said["gate"]["met"]) == ("tiny", ["l2", "linf"], True)
    assert list(said["norms"]["l2"]["attacks"]) == ["Dowse", "Square", "Transfer", "P-RGF"]
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    for norm in said["norms"].values():
        assert norm["sentence"] in ended.output
        assert norm["sentence"] in page
    assert "at most 960 queries" in ended.output
    assert len(list(ElementTree.parse(tmp_path / "a.xml").iter("testcase"))) == 3
    with Store(tmp_path / "out") as store:
        assert len(store.runs()) == 8


def test_the_page_says_where_labels_come_from(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    for name in ("cat/a.png", "horse/b.png", "c.png"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "set" / name)
    words = ("--target", TARGET, "--images", tmp_path / "set", "--out", tmp_path / "out", "--anyway", *BALLS)
    dowse(*words, "--surrogate", "none", "--method", "square", "--budget", 4)
    page = (tmp_path / "out" / "audit.html").read_text(encoding="utf-8")
    assert "Labels: the places of the subfolders in alphabetical order; left out: 1 picture beside" in page


def test_a_requirement_that_is_not_met_is_status_3_and_the_same_command_asks_nothing(
    tmp_path: Path, few: tuple[object, ...]
) -> None:
    free = (*few, "--surrogate", "none", "--norm", "l2", "--eps", "3.0")
    command = (*free, "--require", "accuracy@40 >= 1")
    ended = dowse(*command, "--junit", tmp_path / "a.xml")
    assert ended.exit_code == NOT_MET, ended.output + str(ended.exception)
    assert "1 of 1 requirements are not met" in ended.output
    (failure,) = ElementTree.parse(tmp_path / "a.xml").iter("failure")
    assert "not met" in (failure.get("message") or "")
    seen = rows_seen(tmp_path / "rows")
    again = dowse(*command)
    assert again.exit_code == NOT_MET
    assert rows_seen(tmp_path / "rows") == seen
    met = dowse(*free, "--quiet")
    assert (met.exit_code, met.output) == (0, "")
    assert rows_seen(tmp_path / "rows") == seen


def test_minutes_grow_the_budget_in_rounds(tmp_path: Path, few: tuple[object, ...]) -> None:
    ended = dowse(*few, "--surrogate", "none", "--minutes", 5)
    assert ended.exit_code == 0, ended.output + str(ended.exception)
    with Store(tmp_path / "out") as store:
        assert {run.budget for run in store.runs()} == {40}
        assert {row.budget for row in store.rows() if not row.success} <= {40}
    dry = dowse(*few, "--surrogate", "none", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "4 runs" in dry.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--require", "hafl >= 3"), "did you mean 'half'"),
        (("--require", "accuracy@50 >= 0.3"), "--budget 50"),
        (("--require", "linf half >= 3", "--norm", "l2", "--eps", "0.5"), "about linf"),
        (("--eps", "0.5"), "a radius in one norm"),
        (("--surrogate", "auto", "--surrogate", SURROGATE), "stand alone"),
        (("--norm", "l1"), "l1"),
        (("--method", "rgf", "--method", "nes"), "no attack of this audit can succeed with budget=40: rgf takes 52"),
        (("--quantize", "true", "--eps", "{l2 = 0.5, linf = 0.003}"), "less than a level of 8 bits"),
        (("--method", "sqare"), "square"),
    ],
)
def test_bad_input_is_status_2(few: tuple[object, ...], words: tuple[str, ...], said: str) -> None:
    ended = dowse(*few, *words)
    assert ended.exit_code == 2, ended.output
    assert said in ended.output


def test_a_target_that_is_wrong_stops_before_an_attack(
    tmp_path: Path, write_module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write_module(
        "import os, torch\nclass Deaf(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x.flatten(1)[:, :5] * ('MENDED' in os.environ)\n"
        "def net():\n    return Deaf().eval()\n"
    )
    words = ("--target", f"torch:{module}:net", "--images", image_file(tmp_path, 3), "--out", tmp_path / "out")
    ended = dowse(*words, "--surrogate", "none", "--budget", 20, "--junit", tmp_path / "a.xml")
    assert ended.exit_code == 1, ended.output
    assert "--anyway" in ended.output
    (case,) = ElementTree.parse(tmp_path / "a.xml").iter("testcase")
    assert (case.get("name"), case.find("failure") is None) == ("first look", False)
    assert not (tmp_path / "out" / "dowse.sqlite").exists()
    monkeypatch.setenv("MENDED", "1")
    again = dowse(*words, "--surrogate", "none", "--budget", 20)
    assert again.exit_code == 0, again.output  # the look that stopped it was not kept


def test_the_workflow_of_the_docs_runs(tmp_path: Path, write_module: Callable[[str], str]) -> None:
    """The command is the page's own; the model and the pictures are such as it expects to find."""
    text = (PROJECT / "docs" / "audit.md").read_text(encoding="utf-8")
    workflow = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert workflow is not None
    (command,) = re.findall(r"run: >-\n((?: {10}.*\n)+)", workflow[1])
    words = shlex.split(command)
    write_module("")
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project" / "models.py").write_text(
        "from tests.nets import Waves\nimport torch\ndef classifier():\n    return Waves(dtype=torch.float32)\n"
    )
    rng = np.random.default_rng(0)
    for name in "abc":
        folder = tmp_path / "tests" / "pictures" / name
        folder.mkdir(parents=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / "picture.png")
    assert words[:2] == ["dowse", "audit"]
    ended = dowse(*words[2:], "--labels", "target", "--surrogate", "none")
    assert ended.exit_code in (0, NOT_MET), ended.output + str(ended.exception)
    for file in re.findall(r"\S+\.(?:html|xml|json)", command):
        assert (tmp_path / file).is_file()
