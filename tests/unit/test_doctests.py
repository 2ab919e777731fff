"""The examples in docstrings run and print what they say; in `dowse.maths` everything public has one."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import dowse.maths

SOURCE = Path(dowse.__file__).parent
MATHS = [importlib.import_module(found.name) for found in pkgutil.walk_packages(dowse.maths.__path__, "dowse.maths.")]
WITH_EXAMPLES = sorted(
    ".".join(["dowse", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_run(module):
    results = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert results.attempted
    assert not results.failed


@pytest.mark.parametrize("module", MATHS, ids=lambda module: module.__name__)
def test_what_is_public_has_an_example(module):
    for name, thing in inspect.getmembers(module, lambda thing: inspect.isfunction(thing) or inspect.isclass(thing)):
        public = name in getattr(module, "__all__", [name]) and not name.startswith("_")
        if thing.__module__ == module.__name__ and public and not getattr(thing, "_is_protocol", False):
            assert ">>>" in (thing.__doc__ or ""), f"{module.__name__}.{name} has no example"
