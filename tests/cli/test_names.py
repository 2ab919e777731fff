"""What a target is called, and whose labels its images have: said by every command, and no part of a run's id."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from dowse.cli import app
from dowse.errors import InputError
from dowse.experiment.file import make_experiment
from dowse.experiment.grid import expand
from dowse.store import Store
from tests.victims import ROWS, TARGET, image_file

WORDS = ("--method", "rgf", "--q", "3", "--budget", "12", "--eps", "0.01", "--dtype", "float64")


def dowse(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "240"})


def passed(*words: object) -> str:
    result = dowse(*words)
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


@pytest.fixture(autouse=True)
def _rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))


def test_what_a_model_prints_is_no_event(tmp_path: Path, write_module: Callable[[str], str]) -> None:
    module = write_module(
        "import torch\ndef net():\n    print('loading my weights')\n"
        "    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()).eval()\n"
    )
    said = ("--target", f"torch:{module}:net", "--images", image_file(tmp_path, 1), "--method", "square", "--budget", 3)
    told = dowse("attack", *said, "--out", tmp_path / "out", "--json")
    assert told.exit_code == 0, told.output
    events = [json.loads(line)["event"] for line in told.stdout.splitlines()]
    assert {"began", "image"} <= set(events)
    assert "loading my weights" in told.stderr


def test_a_target_has_the_name_it_was_given_everywhere_and_its_run_the_old_id(tmp_path: Path) -> None:
    said = ("attack", "--target", TARGET, "--images", image_file(tmp_path, 2), *WORDS, "--out", tmp_path / "out")
    passed(*said, "--quiet")
    with Store(tmp_path / "out") as store:
        (before,) = store.runs()
    assert before.target_name is None
    assert "Our best model" in passed(*said, "--name", "Our best model")
    passed(*said, "--quiet")  # goes on with the run, and its name stays
    with Store(tmp_path / "out") as store:
        (after,) = store.runs()
    assert (after.id, after.content, after.target_name) == (before.id, before.content, "Our best model")
    assert "Our best model" in passed("status", tmp_path / "out")
    page = Path(passed("report", tmp_path / "out").strip()).read_text(encoding="utf-8")
    assert "<h1>How few queries fool Our best model</h1>" in page
    assert "Our best model" in passed("report", tmp_path / "out", "--format", "markdown")


def test_targets_of_an_experiment_have_names_of_their_own() -> None:
    tables = {
        "target": [{"spec": "dowse:a", "name": "Ours"}, "dowse:b"], "defence": ["none", "jpeg:75"], "images": "x",
        "method": {"name": "rgf", "count": {"dowse:a": 3}},
    }  # fmt: skip
    named = make_experiment(tables, source="test")
    plain = make_experiment({**tables, "target": ["dowse:a", "dowse:b"]}, source="test")
    plans, without = (expand(one, lambda target: "") for one in (named, plain))
    assert [plan.target_name for plan in plans] == ["Ours", "jpeg:75 + Ours", None, None]
    assert [plan.spec.id for plan in plans] == [plan.spec.id for plan in without]
    with pytest.raises(InputError, match="has 2: name them in it"):
        named.changed(target_name="All")
    with pytest.raises(InputError, match="did you mean 'name'"):
        make_experiment({**tables, "target": {"spec": "dowse:a", "nam": "Ours"}}, source="test")
    with pytest.raises(InputError, match="at least 1"):
        make_experiment({**tables, "target": {"spec": "dowse:a", "name": ""}}, source="test")


def test_images_without_labels_take_the_target_s_own_and_all_say_so(tmp_path: Path) -> None:
    (tmp_path / "flat").mkdir()
    for i, pixels in enumerate(np.random.default_rng(0).integers(60, 200, (2, 4, 4, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(tmp_path / "flat" / f"{i}.png")
    said = ("attack", "--target", TARGET, "--images", tmp_path / "flat", *WORDS, "--out", tmp_path / "out")
    sentence = "each is attacked as what the target itself takes it for"
    assert sentence in passed(*said)
    assert sentence in passed("status", tmp_path / "out")
    (run,) = json.loads(passed("status", tmp_path / "out", "--json"))["runs"]
    assert run["own_labels"]
    page = Path(passed("report", tmp_path / "out").strip()).read_text(encoding="utf-8")
    assert "without labels: each attacked as what the target itself takes it for" in page
