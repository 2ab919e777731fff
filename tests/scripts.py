"""The scripts of experiments/ as modules, so that a test can call their functions."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def experiment_script(name: str) -> ModuleType:
    """What experiments/NAME.py defines."""
    spec = importlib.util.spec_from_file_location(f"experiments_{name}", EXPERIMENTS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXPERIMENTS))  # where it finds the scripts that it is made of
        spec.loader.exec_module(module)
    return module
