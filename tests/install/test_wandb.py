"""`--wandb`: a run is logged by Weights & Biases, here in its offline mode."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.install
ROOT = Path(__file__).parents[2]
SPEC = "torch:dowse.models.shapes:classifier"


def test_a_run_is_logged_offline_and_goes_on(tmp_path: Path) -> None:
    if find_spec("wandb") is None:
        pytest.skip("wandb is not installed; `make test-extra` installs it")
    for count in ("2", "3"):
        command = [
            sys.executable,
            "-m",
            "dowse",
            "attack",
            "--target",
            SPEC,
            "--images",
            "demo:shapes",
            "--count",
            count,
        ]
        command += ["--method", "square", "--budget", "10", "--out", str(tmp_path / "out"), "--wandb", "--threads", "1"]
        settings = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "PYTHONPATH": str(ROOT / "src")}
        ended = subprocess.run(
            command, env=os.environ | settings, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    logs = list((tmp_path / "out" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(logs) == 2
    assert len({path.name for path in logs}) == 1, "the second part is of the same W&B run"
    assert all(path.stat().st_size > 500 for path in logs)
