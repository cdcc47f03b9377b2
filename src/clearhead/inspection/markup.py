"""HTML and SVG that text cannot break: a tag's texts are escaped unless they are markup themselves.

tag("p", "a < b", tag("b", "c"), class_="note")   ->   <p class="note">a &lt; b<b>c</b></p>
"""

import re
from collections.abc import Iterable
from html import escape

# What HTML has no character for, or has one for that no reader can see: shown as a box.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
VOID = ("meta", "br", "hr", "col", "rect", "path", "line", "circle", "use")


class Markup(str):
    """Text that is already markup and is inserted as it is."""

    __slots__ = ()


Inside = str | int | float | Iterable["Inside"] | None


def tag(name: str, /, *inside: Inside, **attributes: str | float | None) -> Markup:
    """One element; attributes that are None are omitted, `class_` is class and `text_anchor` text-anchor."""
    stated = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(coordinate(value) if isinstance(value, float) else str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{stated}>" if name in ("meta", "br", "hr", "col") else f"<{name}{stated}/>")
    return Markup(f"<{name}{stated}>{joined(*inside)}</{name}>")


def joined(*inside: Inside) -> Markup:
    """Texts, markup and lists of them, one after the other."""
    parts: list[str] = []
    for part in inside:
        if isinstance(part, Markup):
            parts.append(part)
        elif isinstance(part, str):
            parts.append(text(part))
        elif isinstance(part, int | float):
            parts.append(coordinate(part))
        elif part is not None:
            parts.append(joined(*part))
    return Markup("".join(parts))


def row_names(names: Iterable[str], left: float, top: float, side: float) -> list[Markup]:
    """Names beside the rows of a picture that starts at `left` and `top`, each row `side` high."""
    return [
        tag(
            "text", name, x=left - 8, y=top + side * (i + 0.5), text_anchor="end", dominant_baseline="central"
        )
        for i, name in enumerate(names)
    ]


def text(plain: str) -> Markup:
    """A text as it is read, whatever it contains: HTML escaped, characters that hide or reverse text boxed."""
    return Markup(escape(UNSEEN.sub("\N{WHITE VERTICAL RECTANGLE}", plain)))


def coordinate(value: float) -> str:
    """A coordinate or width, as short as two decimals allow."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if "." in str(value) else str(value)
