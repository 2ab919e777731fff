"""What the command's tests share."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module into the working folder, under a name no other test has; returns that name."""
    name = f"nets_{tmp_path.name.replace('-', '_')}"
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write
