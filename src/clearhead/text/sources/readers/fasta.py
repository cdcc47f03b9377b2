"""FASTA: a line `>id description`, then lines of sequence (Pearson and Lipman, 1988); `;` starts a comment.

For a language model each sequence is a document, which leaves in pieces, so that a chromosome of any length
passes through a few kilobytes. Elsewhere a sequence is a row with the columns `id`, `description` and
`sequence`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clearhead.examples import Example, Text
from clearhead.text.sources.scan import Row, Scan

LETTERS = re.compile(r"[A-Za-z*.\-]+\Z")
RECORD = "A record is a header line that starts with >, then lines of letters."
# Pieces of a multiple of this many letters split evenly into k-mers of 2, 3, 4, 5, 6 or 8.
PIECE = 120


@dataclass(frozen=True, slots=True)
class Begin:
    """A header, which starts a record."""

    line: int
    header: str


@dataclass(frozen=True, slots=True)
class Break:
    """A line that cannot be read: its record is skipped."""


def read_fasta(scan: Scan) -> Iterator[Example]:
    """Sequences: in pieces where they are the text of a language model, else whole and with their columns."""
    if scan.schema.kind == "text" and scan.columns in (None, ("sequence",)):
        return _sequences_in_pieces(scan)
    return scan.examples(scan.checked(_sequence_rows(scan)))


def _sequences_in_pieces(scan: Scan) -> Iterator[Example]:
    size = scan.reading.chunk_characters // PIECE * PIECE
    held, starts = "", True
    for part in _parts(scan):
        if isinstance(part, str):
            held += part
            for at in range(0, len(held) - size, size):
                yield Text(held[at : at + size], starts)
                starts = False
            held = held[(len(held) - 1) // size * size :]
        elif isinstance(part, Begin):
            if held:
                yield Text(held, starts)
            held, starts = "", True
        else:
            held = ""
    if held:
        yield Text(held, starts)


def _sequence_rows(scan: Scan) -> Iterator[Row]:
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
        if isinstance(part, Begin) and begin and (row := _sequence_row(scan, begin, letters)):
            yield row
        begin, letters, size = part if isinstance(part, Begin) else None, [], 0
    if begin and (row := _sequence_row(scan, begin, letters)):
        yield row


def _sequence_row(scan: Scan, begin: Begin, letters: list[str]) -> Row | None:
    name, _, description = begin.header.partition(" ")
    record = {"id": name, "description": description.strip(), "sequence": "".join(letters)}
    return scan.pick(
        begin.line, record, scan.columns or ("sequence", "description")[: len(scan.schema.fields)]
    )


def _report_length(scan: Scan, begin: Begin) -> None:
    limit = scan.reading.max_line_bytes
    scan.problem(
        begin.line, f"the sequence is longer than {limit} letters", "Split it, or raise data.max_line_bytes."
    )


def _parts(scan: Scan) -> Iterator[Begin | Break | str]:
    """Headers and lines of letters; after a line that cannot be read nothing more of its record."""
    begin: Begin | None = None
    is_empty = is_given_up = False
    for number, raw in scan.lines():
        line = raw.strip()
        if not line or line.startswith(";"):
            scan.ignore("comment or blank line")
        elif line.startswith(">"):
            if begin and is_empty:
                scan.problem(begin.line, "the record has no sequence", RECORD)
                yield Break()
            begin, is_empty, is_given_up = Begin(number, line[1:].strip()), True, False
            yield begin
        elif not is_given_up and (fault := _fault(begin, line)):
            scan.problem(number, fault, RECORD)
            yield Break()
            is_empty, is_given_up = False, True
        elif not is_given_up:
            yield line
            is_empty = False
    if begin and is_empty:
        scan.problem(begin.line, "the record has no sequence", RECORD)
        yield Break()


def _fault(begin: Begin | None, line: str) -> str | None:
    if begin is None:
        return "is a sequence without a header"
    if not LETTERS.match(line):
        wrong = next(letter for letter in line if not LETTERS.match(letter))
        return f"contains {wrong!r}, which is not a letter of a sequence"
    return None
