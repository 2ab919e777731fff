"""The API: a page for `dowse` itself and one for every module that has public names, from their docstrings."""

from importlib import import_module

from website.public import PUBLIC

INTRODUCTION = """# The API

These names are public: they stay within a minor version. Everything else is internal and may change.

| module | names |
|---|---|
"""


def pages() -> dict[str, str]:
    """Every page of the API."""
    made = {f"api/{module}.md": _page(module, names) for module, names in _surface().items()}
    rows = [
        f"| [`{module}`]({module}.md) | " + ", ".join(f"[`{name}`][{module}.{name}]" for name in names) + " |"
        for module, names in _surface().items()
    ]
    return {"api/index.md": INTRODUCTION + "\n".join(rows) + "\n", **made}


def navigation() -> list[dict[str, str]]:
    """Title and page of every module."""
    return [{module: f"api/{module}.md"} for module in _surface()]


def _surface() -> dict[str, list[str]]:
    return {module: sorted(names, key=str.lower) for module, names in {"dowse": _top(), **PUBLIC}.items()}


def _top() -> list[str]:
    import dowse

    return list(dowse.__all__)


def _page(module: str, names: list[str]) -> str:
    summary = (import_module(module).__doc__ or "").strip()
    return "\n\n".join([f"# {module}", summary, *(f"::: {module}.{name}" for name in names)]) + "\n"
