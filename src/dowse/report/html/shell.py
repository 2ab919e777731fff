"""What every page has: templates filled and escaped, one style, one script that alone may run, and its data."""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from dowse.report.data.names import norm_sign, subscripts
from dowse.report.html import listings
from dowse.wording import percent, plural, queries

HOME = "dowse.report.html"
SAID = (percent, plural, queries, norm_sign, subscripts, listings.counts, listings.options)


def render_page(
    template: str,
    *,
    title: str,
    sections: Mapping[str, tuple[str, str]],
    data: Mapping[str, Any],
    scripts: Sequence[str],
    styles: Sequence[str] = ("page.css",),
    home: str = HOME,
    filters: Sequence[Callable[..., Any]] = (),
    **context: Any,
) -> str:
    """A page as one text that needs nothing else.

    Args:
        template: Its template, which fills the blocks of shell.html.
        title: What it is called.
        sections: Its sections that have anything to show: each one's heading, and its word among the links.
        data: What the script draws from.
        scripts: The script's parts, without their ending, in the order in which they need each other.
        styles: The style's parts.
        home: The package whose `templates` and `assets` come before the report's own.
        filters: Functions that the template may call by their names, beside those of every page.
        context: What else the template knows.
    """
    script = f'"use strict";\n(() => {{\n{_assets(home, [f"{name}.js" for name in scripts])}\n}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    templates = _templates(home)
    templates.filters.update({function.__name__: function for function in (*SAID, *filters)})
    return templates.get_template(template).render(
        title=title,
        sections=sections,
        data=data,
        script=script,
        style=_assets(home, styles),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        **context,
    )


@cache
def _templates(home: str) -> Environment:
    """The templates of a package, then the report's; what they show is escaped, what they do not know is an error."""
    loaders = [PackageLoader(package) for package in dict.fromkeys((home, HOME))]
    templates = Environment(
        loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    return templates


def _assets(home: str, names: Sequence[str]) -> str:
    """Files one after the other, each from the first package that has it."""
    folders = [files(package) / "assets" for package in dict.fromkeys((home, HOME))]
    found = [next(folder / name for folder in folders if (folder / name).is_file()) for name in names]
    return "\n".join(file.read_text(encoding="utf-8") for file in found)
