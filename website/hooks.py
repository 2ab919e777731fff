"""What mkdocs calls while it builds the site: pages made of what is said elsewhere, and pages written for GitHub."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website import api_pages, look, method_pages, root_pages
from website.github import as_on_github, by_title

ROOT = Path(__file__).parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation: a page a method, a page a public module, and pages that mkdocs.yml does not name."""
    nav = {title: pages for section in config.nav or [] for title, pages in section.items()}
    nav["Methods"] += method_pages.navigation()
    nav["API"] += api_pages.navigation()
    nav["Project"][1] = {"Decisions": [{"Decisions": "decisions/index.md"}, *root_pages.decisions(ROOT)]}
    known = set(_paths(list(nav.values())))
    written = (path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))
    nav["Guide"] += [path for path in written if path not in known]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made: the files of the project's root, the public names, the style."""
    made = {
        **root_pages.pages(ROOT),
        **api_pages.pages(),
        "look.css": look.style(ROOT),
    }
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A page as GitHub would read it; a method's page with what the method says of itself."""
    path = page.file.src_uri
    return as_on_github(by_title(method_pages.completed(path, markdown), (ROOT / "docs" / path).parent))


def _paths(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [path for part in parts for path in _paths(part)]
