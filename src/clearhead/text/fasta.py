"""FASTA: a line `>id description`, then lines of sequence (Pearson and Lipman, 1988); `;` begins a comment.

For a language model each sequence is a document, which leaves in pieces, so that a chromosome of any length
passes through a few kilobytes. Elsewhere a sequence is a row with the columns `id`, `description` and
`sequence`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clearhead.text.examples import Text
from clearhead.text.scan import Numbered, Row, Scan

LETTERS = re.compile(r"[A-Za-z*.\-]+\Z")
ADVICE = "A record is a line that begins with > and then lines of letters."
# Pieces of a multiple of this many letters fall apart into k-mers of 2, 3, 4, 5, 6 or 8 without a rest.
PIECE = 120


@dataclass(frozen=True, slots=True)
class Begin:
    """A header: a record begins."""

    line: int
    header: str


@dataclass(frozen=True, slots=True)
class Break:
    """A line that cannot be read: its record is given up."""


def read_fasta(scan: Scan) -> Iterator[Numbered]:
    """Sequences: in pieces where they are the text of a language model, else whole and with their columns."""
    if scan.want.kind == "text" and scan.columns in (None, ("sequence",)):
        return _pieces(scan)
    return scan.examples(scan.checked(_rows(scan)))


def _pieces(scan: Scan) -> Iterator[Numbered]:
    size = scan.reading.chunk_characters // PIECE * PIECE
    line, held, starts = 0, "", True
    for part in _parts(scan):
        if isinstance(part, str):
            held += part
            for at in range(0, len(held) - size, size):
                yield line, Text(held[at : at + size], starts)
                starts = False
            held = held[(len(held) - 1) // size * size :]
        elif isinstance(part, Begin):
            if held:
                yield line, Text(held, starts)
            line, held, starts = part.line, "", True
        else:
            held = ""
    if held:
        yield line, Text(held, starts)


def _rows(scan: Scan) -> Iterator[Row]:
    begin: Begin | None = None
    letters: list[str] = []
    size = 0
    for part in _parts(scan):
        if isinstance(part, str) and begin:
            letters.append(part)
            size += len(part)
            if size > scan.reading.max_line_bytes:
                _report_length(scan, begin)
                begin, letters = None, []
        if isinstance(part, str):
            continue
        if isinstance(part, Begin) and begin and (row := _row(scan, begin, letters)):
            yield row
        begin, letters, size = part if isinstance(part, Begin) else None, [], 0
    if begin and (row := _row(scan, begin, letters)):
        yield row


def _row(scan: Scan, begin: Begin, letters: list[str]) -> Row | None:
    name, _, description = begin.header.partition(" ")
    record = {"id": name, "description": description.strip(), "sequence": "".join(letters)}
    return scan.pick(begin.line, record, scan.columns or ("sequence", "description")[: len(scan.want.fields)])


def _report_length(scan: Scan, begin: Begin) -> None:
    limit = scan.reading.max_line_bytes
    scan.problem(
        begin.line, f"the sequence is longer than {limit} letters", "Cut it, or raise data.max_line_bytes."
    )


def _parts(scan: Scan) -> Iterator[Begin | Break | str]:
    """Headers and lines of letters; after a line that cannot be read nothing more of its record."""
    begin: Begin | None = None
    is_empty = is_given_up = False
    for number, raw in scan.lines():
        line = raw.strip()
        if not line or line.startswith(";"):
            scan.pass_over("comment or blank line")
        elif line.startswith(">"):
            if begin and is_empty:
                scan.problem(begin.line, "the record has no sequence", ADVICE)
                yield Break()
            begin, is_empty, is_given_up = Begin(number, line[1:].strip()), True, False
            yield begin
        elif not is_given_up and (fault := _fault(begin, line)):
            scan.problem(number, fault, ADVICE)
            yield Break()
            is_empty, is_given_up = False, True
        elif not is_given_up:
            yield line
            is_empty = False
    if begin and is_empty:
        scan.problem(begin.line, "the record has no sequence", ADVICE)
        yield Break()


def _fault(begin: Begin | None, line: str) -> str | None:
    if begin is None:
        return "a sequence without a header"
    if not LETTERS.match(line):
        wrong = next(letter for letter in line if not LETTERS.match(letter))
        return f"{wrong!r} is no letter of a sequence"
    return None
