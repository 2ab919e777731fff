"""Pages that stand at the project's root, where GitHub looks for them, and the list of decisions."""

import re
from pathlib import Path

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"\]\(([\w./-]+)(#[\w-]+)?\)")


def pages(root: Path) -> dict[str, str]:
    """The files of the root as pages of the site, links and all, and the list of decisions."""
    made = {page: _moved((root / name).read_text(encoding="utf-8")) for name, page in PAGES.items()}
    lines = [f"- [{title}]({Path(path).name})" for one in decisions(root) for title, path in one.items()]
    made["decisions/index.md"] = "\n".join(["# Decisions", "", "Why things are as they are.", "", *lines, ""])
    return made


def decisions(root: Path) -> list[dict[str, str]]:
    """Title and page of every decision."""
    found = sorted((root / "docs" / "decisions").glob("[0-9]*.md"))
    return [{_title(path): f"decisions/{path.name}"} for path in found]


def _title(path: Path) -> str:
    number = int(path.name.partition("-")[0])
    return f"{number}. " + path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _moved(markdown: str) -> str:
    """A page of the root as if it stood in docs/."""
    return LINK.sub(lambda link: f"]({_place(link[1])}{link[2] or ''})", markdown)


def _place(path: str) -> str:
    if path in PAGES:
        return PAGES[path]
    path = path.removeprefix("docs/")
    return "decisions/index.md" if path == "decisions" else path
