"""The shape of the code: the public names, and imports that point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dowse

SOURCE = Path(dowse.__file__).parent
PUBLIC = [
    "Audit",
    "End",
    "Estimate",
    "Image",
    "InputError",
    "Model",
    "Observer",
    "Outcome",
    "Progress",
    "Result",
    "Summary",
    "Surrogate",
    "TargetFailedError",
    "attack",
    "benchmark",
    "estimate",
    "predict_function",
    "stream",
    "through_onnxruntime",
]
# The rooms of the house, lower ones first. A room may import those before it in this list and itself, no other; a file
# or folder below `dowse` that is not listed fails the test.
ROOMS = (
    "errors",
    "wording",
    "machine",
    "settings",
    "maths",
    "core",
    "estimators",
    "attacks",
    "models",
    "defences",
    "targets",
    "surrogates",
    "images",
    "preflight",
    "prepare",
    "api",
    "experiment",
    "store",
    "running",
    "report",
    "figures",
    "audit",
    "cli",
)
DOORS = ("__init__", "__main__")  # what is imported or started from outside may import any room
NOT_FROM = {"report": {"running", "api", "prepare", "preflight"}, "figures": {"running"}}


def rooms_of_the_house() -> set[str]:
    """Every file and folder below `dowse` that holds code."""
    return {
        path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path.is_dir() and any(path.rglob("*.py")))
    }


def modules(room: str) -> list[Path]:
    single = SOURCE / f"{room}.py"
    return [single] if single.exists() else sorted((SOURCE / room).rglob("*.py"))


def imported_rooms(path: Path) -> set[str]:
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


def test_every_room_is_listed():
    assert rooms_of_the_house() == {*ROOMS, *DOORS}


def test_the_hall_is_small():
    assert len(list(SOURCE.glob("*.py"))) <= 8


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room):
    allowed = {*ROOMS[: ROOMS.index(room) + 1]} - NOT_FROM.get(room, set())
    for path in modules(room):
        above = imported_rooms(path) - allowed
        assert not above, f"{path.relative_to(SOURCE)} imports {', '.join(sorted(above))}, which lies above {room}"


def test_the_report_loads_nothing_that_runs_attacks():
    """Also by way of others: what reads a store must start fast and must not need what wrote it."""
    script = "import sys, dowse.report; print(*{name.split('.')[1] for name in sys.modules if name[:6] == 'dowse.'})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "report" in loaded
    assert not {*loaded} & {*NOT_FROM["report"], "figures"}


@pytest.mark.parametrize("room", ["estimators", "attacks"])
def test_attacks_know_no_model(room):
    known = {"dowse.core.oracle", "dowse.core.driver", "dowse.core.prior", "dowse.core.reply", "dowse.core.target"}
    for path in modules(room):
        text = path.read_text(encoding="utf-8")
        assert not any(name in text for name in known), path.relative_to(SOURCE)


def test_every_module_says_its_place_in_a_sentence():
    for path in SOURCE.rglob("*.py"):
        sentence = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert sentence, f"{path.relative_to(SOURCE)} has no docstring"


def test_the_architecture_names_every_room_and_every_module_of_the_core():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    expected = {*ROOMS, *(path.stem for path in modules("core") if path.stem != "__init__")}
    assert not {name for name in expected if f"`{name}`" not in page}


def test_no_module_is_longer_than_a_reader_holds_in_mind():
    """About 250 lines; the limit leaves room for a last function."""
    long = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.read_text("utf-8").count("\n") > 300}
    assert not long, f"past 300 lines, to be split: {', '.join(sorted(long))}"
