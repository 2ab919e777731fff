"""The names beyond `dowse.*` that docs send people to: pinned, documented, and the only ones that docs import."""

import ast
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType

import pytest

from website.public import PUBLIC

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_there(module):
    assert PUBLIC[module] <= set(dir(import_module(module)))


@pytest.mark.parametrize("module", PUBLIC)
def test_public_functions_and_classes_have_docstrings(module):
    home = import_module(module)
    bare = [
        name
        for name in PUBLIC[module]
        if isinstance(thing := getattr(home, name), type | FunctionType) and not thing.__doc__
    ]
    assert not bare


@pytest.mark.parametrize("module", PUBLIC)
def test_public_constants_have_words_below_them(module):
    """As the API pages read them: a string right after the assignment."""
    home = import_module(module)
    body = ast.parse(Path(home.__file__).read_text(encoding="utf-8")).body
    said = {
        target.id
        for before, after in pairwise(body)
        if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr)
        for target in (before.targets if isinstance(before, ast.Assign) else [before.target])
        if isinstance(target, ast.Name) and isinstance(after.value, ast.Constant)
    }
    constants = {name for name in PUBLIC[module] if not isinstance(getattr(home, name), type | FunctionType)}
    assert constants <= said


def test_docs_import_public_names_only():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert len(pages) > 10
    for page in pages:
        for module, names in re.findall(r"from (dowse\.[\w.]+) import ([\w, ]+)", page.read_text(encoding="utf-8")):
            asked = {name.strip() for name in names.split(",")}
            assert asked <= PUBLIC.get(module, set()), f"{page.name} sends people to {module}: {sorted(asked)}"
