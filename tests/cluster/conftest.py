"""How Ray behaves in tests: no tokens in the home folder, and its own loose ends are not ours to tie."""

import os
from importlib.util import find_spec

import pytest

os.environ["RAY_AUTH_MODE"] = "disabled"  # read when ray is first imported


@pytest.fixture(autouse=True)
def needs_ray() -> None:
    if find_spec("ray") is None:  # not imported here: the engine says what Ray is to read when it is
        pytest.skip("Ray is not installed; pip install 'dowse[ray]'")
