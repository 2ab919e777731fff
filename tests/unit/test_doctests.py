"""The examples in the docstrings of `dowse.maths` run and print what they say."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import dowse.maths

MODULES = [importlib.import_module(found.name) for found in pkgutil.walk_packages(dowse.maths.__path__, "dowse.maths.")]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_run(module):
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert not results.failed


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_is_public_has_an_example(module):
    for name, thing in inspect.getmembers(module, lambda thing: inspect.isfunction(thing) or inspect.isclass(thing)):
        public = name in getattr(module, "__all__", [name]) and not name.startswith("_")
        if thing.__module__ == module.__name__ and public and not getattr(thing, "_is_protocol", False):
            assert ">>>" in (thing.__doc__ or ""), f"{module.__name__}.{name} has no example"
