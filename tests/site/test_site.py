"""The documentation site: builds without a warning or the network, no dead link, nothing public left out."""

import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import dowse
from dowse.cli.catalogue import catalogue
from website.method_pages import page_of
from website.public import PUBLIC

pytestmark = [pytest.mark.install]


class Page(HTMLParser):
    """What a page links to, loads, and can be linked to at; and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        for word in ("id", "name"):
            if value := said.get(word):
                self.places.add(value)
        if tag == "a" and (link := said.get("href")):
            self.links.append(link)
        if tag in ("script", "img", "iframe", "source") and (source := said.get("src")):
            self.loads.append(source)
        if tag == "link" and said.get("rel") in ("stylesheet", "icon", "preconnect") and (source := said.get("href")):
            self.loads.append(source)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_no_dead_link(site: Path, pages: dict[Path, Page]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if place.is_dir():
                place /= "index.html"
            known = pages[place].places if place in pages else None
            if not place.exists() or (parts.fragment and known is not None and unquote(parts.fragment) not in known):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert not dead


def test_everything_it_loads_is_its_own(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for source in page.loads:
            parts = urlsplit(source)
            assert parts.scheme in ("", "data"), f"{path.relative_to(site)} loads {source}"
            assert not parts.netloc, f"{path.relative_to(site)} loads {source}"
            assert parts.scheme or (path.parent / unquote(parts.path)).exists(), (
                f"{path.relative_to(site)}: no {source}"
            )
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(encoding="utf-8").replace("'", "").replace('"', "")


def test_every_public_name_is_documented(site: Path) -> None:
    """The inventory lists what mkdocstrings documented; a name without a docstring would be there without words."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    listed = {line.split(" ", 1)[0] for line in zlib.decompress(inventory).decode().splitlines()}
    wanted = {f"dowse.{name}" for name in dowse.__all__} | {
        f"{home}.{name}" for home in PUBLIC for name in PUBLIC[home]
    }
    assert wanted <= listed


def test_every_method_has_a_page(site: Path) -> None:
    for name in catalogue():
        page = (site / page_of(name)).with_suffix(".html").read_text(encoding="utf-8")
        assert "The box" in page, name
        assert f"--method {name} " in page, name


def test_a_star_stays_a_star(pages: dict[Path, Page], site: Path) -> None:
    """λ* twice in a line is no emphasis."""
    page = pages[site / "results.html"]
    written = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    assert "".join(page.words).count("λ*") >= written.count("λ*") > 10


def test_lists_are_lists(pages: dict[Path, Page], site: Path) -> None:
    for path, page in pages.items():
        lines = "".join(page.words).splitlines()
        stray = [line for line in lines if line.startswith(("- **", "| ---", "|---"))]
        assert not stray, path.relative_to(site)
