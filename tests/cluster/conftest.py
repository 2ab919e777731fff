"""How Ray behaves in tests: no tokens in the home folder, and its own loose ends are not ours to tie."""

import os

import pytest

os.environ["RAY_AUTH_MODE"] = "disabled"  # read when ray is first imported


@pytest.fixture(autouse=True)
def needs_ray() -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'dowse[ray]'")
