"""Stores are read where nothing can be written: no file may grow, as on a full disk."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dowse.store import StoreWriter
from tests.stores import Made, make_store
from tests.victims import PROJECT


def without_room(*words: object) -> subprocess.CompletedProcess[str]:
    """A command in a process whose files cannot grow; its output goes through a pipe, which has no size."""
    return subprocess.run(
        [sys.executable, "-m", "dowse", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(params=["closed", "log left", "log without index"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store that was closed, or as a killed process leaves it, its last changes in the log only."""
    made = make_store(tmp_path / "made", [Made("before", [100, 200, None])])
    left = tmp_path / "left"
    with StoreWriter(made, ["dowse"]) as writer:
        writer._database.execute("UPDATE runs SET title = 'after'")
        if request.param != "closed":
            shutil.copytree(made, left)
    if request.param == "log without index":
        (left / "dowse.sqlite-shm").unlink()
    return made if request.param == "closed" else left


def test_a_store_is_read_where_nothing_can_be_written(store: Path) -> None:
    told = without_room("status", store, "--json")
    assert told.returncode == 0, told.stderr
    assert [run["title"] for run in json.loads(told.stdout)["runs"]] == ["after"]
    rows = without_room("rows", store)
    assert rows.returncode == 0, rows.stderr
    assert rows.stdout.count("after") == 3


def test_a_report_of_it_is_made_but_has_to_go_elsewhere(tmp_path: Path) -> None:
    store = make_store(tmp_path, [Made("P-RGF", [100, 200, None])])
    text = without_room("report", store, "--format", "csv")
    assert text.returncode == 0, text.stderr
    assert text.stdout.count("P-RGF") == 1
    page = without_room("report", store)
    assert page.returncode == 2
    assert "name a file that can be written" in page.stderr
