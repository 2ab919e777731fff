"""Pages are written for GitHub, whose Markdown lets a list or a table follow its paragraph; this one's wants a line.

There a link may be called by its file, which on a site says nothing: here it gets the title of its page.
"""

import re
from pathlib import Path

FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d+\.) ")
ROW = re.compile(r"^\|")
BY_FILE = re.compile(r"\[(?:docs/)?([\w/-]+\.md)\]\(([\w./-]+\.md)\)")


def as_on_github(markdown: str) -> str:
    """A page with an empty line before every list and table that follows a line of text.

    >>> print(as_on_github("It has\\n- one\\n- two"))
    It has
    <BLANKLINE>
    - one
    - two
    """
    lines: list[str] = []
    fenced, before = False, ""
    for line in markdown.split("\n"):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and before.strip() and (_begins(ITEM, line, before) or _begins(ROW, line, before)):
            lines.append("")
        lines.append(line)
        before = line
    return "\n".join(lines)


def by_title(markdown: str, folder: Path) -> str:
    """A page in `folder` whose links are called by titles, where they were called by the files that they lead to."""

    def named(link: re.Match[str]) -> str:
        place = folder / link[2]
        if not link[2].endswith(link[1].rpartition("/")[2]) or not place.is_file():
            return link[0]
        title = place.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        return f"[{title[0].lower()}{title[1:]}]({link[2]})"

    return BY_FILE.sub(named, markdown)


def _begins(kind: re.Pattern[str], line: str, before: str) -> bool:
    """Whether a line is the first of its kind: it follows text, not its like, nor what goes on from it."""
    return bool(kind.match(line)) and not kind.match(before) and not before.startswith((" ", "#", "\t"))
