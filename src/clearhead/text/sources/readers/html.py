"""`.html`: the text of a page without its markup; scripts and styles are skipped.

A page is a document, read whole, so its size has a bound. Space is collapsed as a browser does it; what a browser shows
as a block is a line.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from clearhead.examples import Example, Text
from clearhead.text.sources.readers.txt import cut
from clearhead.text.sources.scan import Scan

SKIPPED = {"script", "style", "template", "noscript", "svg", "math", "iframe", "object"}
# fmt: off
INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "ins", "kbd", "label", "mark", "q", "ruby", "rp", "rt", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "img",
}
# fmt: on


def read_html(scan: Scan) -> Iterator[Example]:
    """The text of a page: in pieces for a language model, whole if it has a label."""
    text = _page_text(scan)
    if text is None:
        return iter(())
    if scan.schema.kind == "text":
        pieces = _pieces(text, scan.reading.chunk_characters)
        return (Text(piece, starts=not at) for at, piece in enumerate(pieces))
    return scan.examples([(1, [text])])


def _page_text(scan: Scan) -> str | None:
    """The text of the page; or None, reported, if it is too long."""
    parts, size, limit = [], 0, scan.reading.max_line_bytes
    for part in scan.lines().texts():
        size += len(part)
        if size > limit:
            scan.problem(0, f"is longer than {limit} characters", "Split it, or raise data.max_line_bytes.")
            return None
        parts.append(part)
    page = PageText()
    page.feed("".join(parts))
    page.close()
    return page.text()


def _pieces(text: str, size: int) -> Iterator[str]:
    """The text in pieces of whole lines of about this size."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + size - 1) + 1 or len(text)
        yield from cut(text[start:end], size)
        start = end


class PageText(HTMLParser):
    """Collects the text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.skipping: str | None = None
        self.depth = 0  # of elements of the name that is skipped
        self.is_literal = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Skip what is no text; start a line at a block."""
        if self.skipping is not None:
            self.depth += tag == self.skipping
        elif tag in SKIPPED:
            self.skipping, self.depth = tag, 1
        elif tag not in INLINE:
            self.is_literal = self.is_literal or tag == "pre"
            self.parts.append("\n" if tag not in ("td", "th") else " ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Of what is empty, only a line end counts."""
        if self.skipping is None and tag not in INLINE and tag not in SKIPPED:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        """End what is skipped, and the line of a block."""
        if self.skipping is not None:
            self.depth -= tag == self.skipping
            if not self.depth:
                self.skipping = None
        elif tag not in INLINE:
            self.is_literal = self.is_literal and tag != "pre"
            self.parts.append("\n" if tag not in ("td", "th") else " ")

    def handle_data(self, data: str) -> None:
        """Keep the text, with its own space only if it is preformatted."""
        if self.skipping is None:
            self.parts.append(data.replace(" ", "\0") if self.is_literal else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        """The lines that are not blank; a NUL stands for a space that is kept."""
        lines = (re.sub(" +", " ", line).strip(" ") for line in "".join(self.parts).split("\n"))
        kept = (line.replace("\0", " ").rstrip() for line in lines)
        return "".join(f"{line}\n" for line in kept if line)
