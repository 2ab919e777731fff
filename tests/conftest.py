"""What every test shares: one torch thread per worker, fast malloc, hypothesis without deadlines, the shared images."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported
os.environ["DOWSE_BACKEND"] = "torch"  # numbers are compared: no run is to take what a clock says is faster
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process that a test starts would compile all of Dowse again

import hypothesis
import pytest
import torch

from dowse.machine.cpu import ensure_fast_malloc
from dowse.machine.importing import TRUST
from tests.rounding import play_if_asked

pytest.register_assert_rewrite("tests.contracts")
play_if_asked()
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
ensure_fast_malloc()  # as the command line does
hypothesis.settings.register_profile("dowse", deadline=None)
hypothesis.settings.load_profile("dowse")

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared weights and images: $DOWSE_SHARED, or ../shared beside the project."""
    folder = Path(os.environ.get("DOWSE_SHARED", PROJECT.parent / "shared"))
    if not (folder / "models").is_dir():
        pytest.skip(f"no shared weights and images at {folder}; set DOWSE_SHARED to where models/ and data/ are")
    return folder


@pytest.fixture(autouse=True)
def _trust_ends_with_the_test() -> Iterator[None]:
    """What a command trusts, it trusts to the end of its process: here that of many tests, in any order."""
    before = os.environ.pop(TRUST, None)
    yield
    os.environ.pop(TRUST, None)
    if before is not None:
        os.environ[TRUST] = before
