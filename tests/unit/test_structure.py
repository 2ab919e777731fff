"""The shape of the code: the public names, and imports that point one way."""

import ast
from pathlib import Path

import pytest

import dowse

SOURCE = Path(dowse.__file__).parent
PUBLIC = [
    "End",
    "Estimate",
    "Image",
    "InputError",
    "Observer",
    "Outcome",
    "Progress",
    "Result",
    "Summary",
    "Surrogate",
    "attack",
    "estimate",
    "stream",
]
# Each layer may import those named with it and itself, beside `errors`; what is not listed here may import anything.
LAYERS = {
    "errors": set(),
    "theory": set(),
    "flow": set(),
    "ledger": set(),
    "delivery": set(),
    "sampling": set(),
    "geometry": {"sampling"},
    "losses": set(),
    "seeds": set(),
    "estimators": {"flow", "theory", "sampling", "geometry"},
    "attacks": {"flow", "theory", "sampling", "geometry", "estimators"},
    "replies": {"flow", "losses"},
    "oracle": {"flow", "losses", "delivery", "ledger", "replies"},
    "result": set(),
    "conversation": {"flow", "geometry", "seeds"},
    "observers": {"flow", "conversation", "replies", "result"},
    "drive": {"flow", "conversation", "observers", "ledger", "oracle", "priors", "replies", "result", "seeds"},
}
ABOVE = {"drive", "run", "api", "cli", "runner", "worker", "engines", "store", "models", "targets", "data"}


def modules(layer: str) -> list[Path]:
    single = SOURCE / f"{layer}.py"
    return [single] if single.exists() else sorted((SOURCE / layer).rglob("*.py"))


def imported_layers(path: Path) -> set[str]:
    """The first component below `dowse` of everything a file imports, wherever in the file that stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("dowse.")}
    return found


def test_the_public_names():
    assert sorted(dowse.__all__) == sorted(PUBLIC)
    assert all(hasattr(dowse, name) for name in PUBLIC)


def test_every_public_name_has_a_docstring():
    assert all(getattr(dowse, name).__doc__ for name in PUBLIC)


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_one_way(layer):
    for path in modules(layer):
        allowed = LAYERS[layer] | {layer, "errors"}
        assert imported_layers(path) <= allowed, f"{path.relative_to(SOURCE)} imports above itself"


@pytest.mark.parametrize("layer", ["estimators", "attacks"])
def test_attacks_know_no_model(layer):
    for path in modules(layer):
        assert not imported_layers(path) & (ABOVE | {"oracle", "priors", "replies"}), path.relative_to(SOURCE)


def test_every_module_says_its_place_in_a_sentence():
    for path in SOURCE.rglob("*.py"):
        sentence = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert sentence, f"{path.relative_to(SOURCE)} has no docstring"
