"""The site's style: the report's colours and letters, read from its style sheet, and what hangs them on the theme."""

import re
from pathlib import Path

REPORT = "src/dowse/report/html/assets/page.css"
LIGHT = re.compile(r"^:root \{(.*?)\n\}", re.DOTALL | re.MULTILINE)
DARK = re.compile(r'^:root\[data-theme="dark"\] \{(.*?)\n\}', re.DOTALL | re.MULTILINE)


def style(root: Path) -> str:
    """The style sheet of the site."""
    report = (root / REPORT).read_text(encoding="utf-8")
    light, dark = LIGHT.search(report), DARK.search(report)
    if light is None or dark is None:
        raise ValueError(f"{REPORT} has no longer a block of colours for light and one for dark")
    schemes = {':root, [data-md-color-scheme="default"]': light[1], '[data-md-color-scheme="slate"]': dark[1]}
    colours = [f"{scheme} {{{variables}\n}}\n" for scheme, variables in schemes.items()]
    return "".join(colours) + (root / "website" / "site.css").read_text(encoding="utf-8")
