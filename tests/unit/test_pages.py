"""The Python in README and docs runs, on small networks; a block that cannot says why in a comment before it."""

import re
from pathlib import Path
from typing import Any

import pytest

from dowse.models.shapes import classifier, shapes
from tests.stores import Made, make_store

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?P<mark><!-- not run: .+ -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)
INDENTED = re.compile(r"^    (?:from|import) dowse\b", re.MULTILINE)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Line and text of every block of a page that runs."""
    text = page.read_text(encoding="utf-8")
    found = [one for one in BLOCK.finditer(text) if one["mark"] is None]
    return [(text.count("\n", 0, one.start("code")), one["code"]) for one in found]


RUN = [page for page in PAGES if blocks(page)]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_one_after_another(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name == "report.md":
        for folder in ("out", "before", "after"):
            make_store(tmp_path / folder, [Made("RGF", [100, 200, None]), Made("P-RGF", [50, 60, 70])])
    names = names_that_pages_take_as_given()
    for line, code in blocks(page):
        exec(compile("\n" * line + code, str(page), "exec"), names)


def names_that_pages_take_as_given() -> dict[str, Any]:
    """A target, a surrogate, images and labels, as a reader has them."""
    import dowse

    x, y = shapes(3)
    net = classifier(0)
    return {"__name__": "page", "dowse": dowse, "target": net, "net": net, "surrogate": classifier(1), "x": x, "y": y}


def test_pages_that_teach_have_code_that_runs() -> None:
    taught = {"README.md", "getting-started.md", "own-model.md", "extending.md", "reproduce.md"}
    assert taught <= {page.name for page in RUN}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_that_imports_dowse_is_in_a_block_that_says_so(page: Path) -> None:
    outside = BLOCK.sub("", page.read_text(encoding="utf-8"))
    assert not INDENTED.search(outside), "put it between ```python and ```, where it is run"
