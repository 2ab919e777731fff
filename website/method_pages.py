"""A page a method: its box is written in docs/methods, all else is what `dowse methods NAME` says."""

import tomllib
from pathlib import Path

from dowse.cli.catalogue import About, catalogue

REFERENCES = Path(__file__).with_name("references.toml")
OVERVIEW = "methods.md"
OWN = {"dowse": "method.md"}  # whose page is more than a box


def page_of(name: str) -> str:
    """Where a method's page is."""
    return OWN.get(name, f"methods/{name}.md")


def navigation() -> list[dict[str, str]]:
    """Name and page of every method."""
    return [{name: page_of(name)} for name in catalogue()]


def completed(path: str, markdown: str) -> str:
    """A page; of a method with its facts, options and reference, of the overview with a table of all."""
    if path == OVERVIEW:
        return markdown + "\n" + _table()
    for about in catalogue().values():
        if path == page_of(about.name):
            heading, _, written = markdown.partition("\n")
            return "\n\n".join([heading, _facts(about), written.strip(), _end(about)])
    return markdown


def references() -> dict[str, dict[str, str]]:
    """Title, authors and address of every paper, by the names and the year that methods call it by."""
    return tomllib.loads(REFERENCES.read_text(encoding="utf-8"))


def _table() -> str:
    rows = [
        f"| [`{one.name}`]({page_of(one.name)}) | {_cell(one.surrogate)} | {', '.join(one.norms)} | {one.targeted} "
        f"| {_cell(one.cost)} | {_cell(one.paper)} |"
        for one in catalogue().values()
    ]
    head = "| method | surrogate | norms | targeted | queries an iteration | from |\n|---|---|---|---|---|---|\n"
    return "## All of them\n\n" + head + "\n".join(rows) + "\n"


def _facts(about: About) -> str:
    loss = about.loss if about.targeted_loss is None else f"{about.loss}, targeted {about.targeted_loss}"
    lines = {
        "from": about.paper,
        "needs a surrogate": about.surrogate,
        "norms": ", ".join(about.norms),
        "targeted": about.targeted,
        "loss": loss,
        "queries an iteration": about.cost,
    }
    rows = "\n".join(f"| {word} | {_cell(said)} |" for word, said in lines.items())
    return f"| | |\n|---|---|\n{rows}\n\n{about.text}"


def _end(about: About) -> str:
    parts = []
    if about.options:
        rows = "\n".join(f"| `{one.name}` | `{one.default}` | {_cell(one.meaning)} |" for one in about.options)
        parts.append(f"## Options\n\n| option | default | what it is |\n|---|---|---|\n{rows}")
    parts.append(
        "## Use it\n\n"
        f"```python\ndowse.attack(target, x, y, method={about.name!r}{_surrogate(about)})\n```\n\n"
        f"    dowse attack --method {about.name} --target SPEC --images PATH"
        + (" --surrogate SPEC" if _surrogate(about) else "")
    )
    cited = [said for key, said in references().items() if about.paper.startswith(key)]
    if cited:
        one = cited[0]
        parts.append(f"## Reference\n\n{one['authors']}: [{one['title']}]({one['address']}). {one['where']}.")
    return "\n\n".join(parts) + "\n"


def _surrogate(about: About) -> str:
    return ", surrogate=surrogate" if about.surrogate in ("yes", "no, but uses one") else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
