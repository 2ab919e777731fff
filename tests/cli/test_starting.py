"""The first seconds of the command: Ctrl-C while modules are imported, and how OpenMP's threads will wait."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.victims import PROJECT

TORCH = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
except BaseException as error:
    raise RuntimeError("half imported") from error
"""
COMMANDS = (
    ["attack", "--target", "dowse:cifar10_resnet20", "--images", "nowhere"],
    ["check", "--target", "dowse:cifar10_resnet20"],
    ["audit", "--target", "dowse:cifar10_resnet20", "--images", "nowhere"],
    ["demo"],
)


def started(script: Path | None, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, where `script` stands for torch."""
    path = [] if script is None else [str(script)]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_", "COV"))}
    environment = plain | {"PYTHONPATH": os.pathsep.join([*path, str(PROJECT / "src"), str(PROJECT)])} | settings
    return subprocess.run(
        [sys.executable, "-m", "dowse", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=hear_ctrl_c,
    )


def hear_ctrl_c() -> None:
    """As in a terminal, also where the tests are a shell's background job, whose children ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_ctrl_c_while_torch_is_imported_is_one_line_and_130(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    ended = started(tmp_path, *words)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


@pytest.mark.parametrize(
    ("settings", "waits"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"), ({"GOMP_SPINCOUNT": "9"}, None)]
)
def test_threads_sleep_while_they_wait_unless_told_otherwise(
    tmp_path: Path, settings: dict[str, str], waits: str | None
) -> None:
    (tmp_path / "torch.py").write_text("import os\nprint(os.environ.get('OMP_WAIT_POLICY'))\nos._exit(0)\n")
    assert started(tmp_path, *COMMANDS[0], **settings).stdout == f"{waits}\n"
