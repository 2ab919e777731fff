"""What is told to Weights & Biases, heard by one that only listens; tests/install has the real one, offline."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dowse.core.summary import summarize
from dowse.running.progress import Snapshot
from dowse.running.wandb import WandB
from tests.stores import CELL, Made, ended

NOW = Snapshot(run="abc", title="RGF", total=2, done=1, fooled=1, here=1, queries=100, busy=1.0, seconds=2.0)


class Heard:
    """A W&B run that remembers."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.summary: dict[str, float] = {}
        self.over = False

    def log(self, said: dict[str, float], step: int) -> None:
        self.logged.append((step, said))

    def finish(self) -> None:
        self.over = True


def test_a_run_is_one_of_theirs_with_its_id_its_images_and_its_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    heard = Heard()
    init = lambda **said: (asked.append(said), heard)[1]  # noqa: E731
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    reporter = WandB(tmp_path / "out")
    row = ended(Made("RGF", [100], spec=CELL), 0, "abc", 500).row
    reporter.began(NOW)
    reporter.ended(NOW, row)
    reporter.finished(NOW, summarize([row]))
    reporter.close()
    (said,) = asked
    assert (said["id"], said["project"], said["resume"]) == ("abc", "dowse", "allow")
    assert said["dir"] == str(tmp_path / "out")
    ((step, numbers),) = heard.logged
    assert step == 1
    assert (numbers["image/queries"], numbers["run/success_rate"], numbers["run/target_busy"]) == (100, 1.0, 0.5)
    assert heard.summary["asr"] == 1.0
    assert heard.over


def test_the_project_is_the_environment_s_where_it_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **said: asked.append(said)))
    monkeypatch.setenv("WANDB_PROJECT", "ours")
    WandB(tmp_path).began(NOW)
    assert asked[0]["project"] == "ours"
