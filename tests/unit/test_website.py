"""What the documentation site is made of, as far as it needs none of the site's tools; tests/site builds it."""

import doctest
from pathlib import Path

import pytest

from dowse.cli.catalogue import catalogue
from website import api_pages, github, look, method_pages, root_pages

ROOT = Path(__file__).parents[2]
WITHOUT_A_PAPER = {"dowse", "transfer"}


def test_examples_of_docstrings() -> None:
    assert not doctest.testmod(github).failed


@pytest.mark.parametrize("name", catalogue())
def test_every_method_has_a_page_with_its_box_its_options_and_its_reference(name: str) -> None:
    path = method_pages.page_of(name)
    page = method_pages.completed(path, (ROOT / "docs" / path).read_text(encoding="utf-8"))
    about = catalogue()[name]
    assert "## The box\n\n    input" in page
    for option in about.options:
        assert f"| `{option.name}` |" in page
    assert about.text in page
    assert ("## Reference" in page) == (name not in WITHOUT_A_PAPER)
    assert f"]({path})" in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_boxes_are_as_wide_as_the_column() -> None:
    for path in (ROOT / "docs" / "methods").glob("*.md"):
        wide = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:4] == "    " and len(line) > 96]
        assert not wide, path.name


def test_every_reference_is_some_method_s() -> None:
    papers = [about.paper for about in catalogue().values()]
    for key in method_pages.references():
        assert any(paper.startswith(key) for paper in papers), key


def test_a_list_may_follow_its_paragraph_but_not_inside_a_block_of_code() -> None:
    page = "Text\n- one\n  more\n- two\n\n```\nText\n- three\n```\nText\n| a |\n|---|\n"
    assert github.as_on_github(page) == page.replace("Text\n- one", "Text\n\n- one").replace("Text\n| a", "Text\n\n| a")


def test_a_link_called_by_its_file_gets_its_title() -> None:
    said = github.by_title("see [targets.md](targets.md) and [these](targets.md)", ROOT / "docs")
    assert said == "see [targets](targets.md) and [these](targets.md)"


def test_pages_of_the_root_lead_into_docs() -> None:
    made = root_pages.pages(ROOT)
    assert "](docs/" not in "".join(made.values())
    assert "](changelog.md)" in made["index.md"] or "](contributing.md)" in made["index.md"]
    assert made["decisions/index.md"].count("\n- ") == len(list((ROOT / "docs" / "decisions").glob("0*.md")))


def test_the_report_s_colours_are_the_site_s() -> None:
    style = look.style(ROOT)
    light, dark = style.split('[data-md-color-scheme="slate"] {', 1)
    assert "--paper: #fdfcfa" in light
    assert "--paper: #131416" in dark


def test_every_public_name_has_its_place_in_the_api() -> None:
    made = api_pages.pages()
    for module, names in api_pages.PUBLIC.items():
        for name in names:
            assert f"::: {module}.{name}\n" in made[f"api/{module}.md"]
