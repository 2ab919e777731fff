"""HTML out of Python values: whatever is put into a tag is escaped, unless it is a tag itself."""

import html
import json
from typing import Any


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | int | bool | None) -> Markup:
    """An element; class_ is class, data_x is data-x; attributes that are None or False are left out."""
    said = []
    for word, value in attributes.items():
        if value is None or value is False:
            continue
        plain = word.rstrip("_").replace("_", "-")
        said.append(f" {plain}" if value is True else f' {plain}="{html.escape(str(value), quote=True)}"')
    inside = joined(*children)
    end = "" if name in ("meta", "input", "br", "img", "link", "col") else f"</{name}>"
    return Markup(f"<{name}{''.join(said)}>{inside}{end}")


def joined(*children: str | None) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(_safe(child) for child in children if child is not None))


def scrolling(table: Markup, label: str) -> Markup:
    """A table that may be wider than the page: it scrolls by itself, by keyboard too, under a label."""
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)


def json_inside(value: Any) -> Markup:
    """A value as JSON that may stand inside a script tag: no character in it can end the tag or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _safe(child: str) -> str:
    return child if isinstance(child, Markup) else html.escape(child, quote=False)
