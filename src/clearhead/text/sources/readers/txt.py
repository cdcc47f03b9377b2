"""Plain text, read as documents.

A `.txt` is a document, or several with blank lines between them, or one a line. Line ends become `\\n`;
everything else is kept, so that the pieces of a document, put together, are the document. A long document
leaves in pieces of whole lines, so that a book of any length passes through a few kilobytes.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from clearhead.examples import Example, Text
from clearhead.text.sources.lines import without_end
from clearhead.text.sources.scan import Scan, TextRow


def read_txt(scan: Scan) -> Iterator[Example]:
    """Documents of plain text: in pieces for a language model, whole where they carry a label."""
    is_text = scan.schema.kind == "text"
    ends = scan.reading.documents or ("file" if is_text else "line")
    if ends == "line":
        rows: Iterator[TextRow] = ((number, [without_end(line)]) for number, line in scan.lines())
        return scan.examples(rows)
    pieces = _pieces_of_documents(scan, ends == "blank-line")
    return (piece for _, piece in pieces) if is_text else scan.examples(_whole_documents(scan, pieces))


def _pieces_of_documents(scan: Scan, blank_line_ends: bool) -> Iterator[tuple[int, Text]]:
    """The documents of a file in pieces."""
    documents = _between_blank_lines(scan) if blank_line_ends else iter([scan.lines().stretches()])
    for document in documents:
        for at, (first, piece) in enumerate(_in_pieces(document, scan.reading.chunk_characters)):
            yield first, Text(piece, starts=not at)


def _in_pieces(stretches: Iterable[tuple[int, str]], size: int) -> Iterator[tuple[int, str]]:
    """Stretches of whole lines as pieces of at least this size, each with the number of its first line."""
    held, first = "", 1
    for number, text in stretches:
        first = first if held else number
        start, counted = 0, len(held)
        held += text.replace("\r\n", "\n")
        while end := held.find("\n", start + size - 1) + 1:
            for piece in cut(held[start:end], size):
                yield first, piece
            number += held.count("\n", counted, end)
            first, start, counted = number, end, end
        held = held[start:]
    for piece in cut(held, size):
        yield first, piece


def _between_blank_lines(scan: Scan) -> Iterator[Iterator[tuple[int, str]]]:
    """The lines of each document."""
    for is_blank, lines in groupby(scan.lines(), key=lambda numbered: not numbered[1].strip()):
        if is_blank:
            for _ in lines:
                scan.ignore("blank line")
        else:
            yield lines


def cut(text: str, size: int) -> Iterator[str]:
    """A text in pieces of about this size: at a space where there is one, so that words stay whole."""
    start = 0
    while len(text) - start >= 2 * size:
        space = text.find(" ", start + size, start + 2 * size)
        end = space if space >= 0 else start + size
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _whole_documents(scan: Scan, pieces: Iterator[tuple[int, Text]]) -> Iterator[TextRow]:
    """Whole documents; one that is longer than a record may be is reported and skipped."""
    held: list[str] = []
    size, first = 0, 1
    for number, piece in pieces:
        if piece.starts:
            if 0 < size <= scan.reading.max_line_bytes:
                yield first, ["".join(held)]
            held, size, first = [], 0, number
        before, size = size, size + len(piece.text)
        if size <= scan.reading.max_line_bytes:
            held.append(piece.text)
        elif before <= scan.reading.max_line_bytes:
            scan.problem(
                first,
                f"the document that starts here is longer than {scan.reading.max_line_bytes} bytes",
                "Set where documents end in data.documents, or raise data.max_line_bytes.",
            )
    if 0 < size <= scan.reading.max_line_bytes:
        yield first, ["".join(held)]
