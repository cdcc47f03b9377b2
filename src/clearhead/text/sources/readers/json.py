"""`.json`: a list of records, or records one after the other, as JSON lines under another name.

The file is decoded a record at a time, so that its size does not matter.
"""

import json
import shlex
from collections.abc import Iterator
from pathlib import PurePath

from clearhead.examples import Example
from clearhead.text.sources.dialogues import messages_in
from clearhead.text.sources.scan import Row, Scan
from clearhead.text.sources.values import folded

LEAST_CHARACTERS = 1 << 16
RECORDS = 'A .json must contain a list of objects, such as [{"text": "Hello"}, {"text": "Goodbye"}].'


def read_json(scan: Scan) -> Iterator[Example]:
    """The records of a list, or of a sequence."""
    return scan.records(_value_rows(scan))


def _value_rows(scan: Scan) -> Iterator[Row]:
    for line, value in json_values(scan):
        if isinstance(value, str) and len(scan.schema.fields) == 1:
            yield line, [value]
        elif advice := _advice(scan, value):
            scan.problem(line, "is one object that contains the records", advice)
        elif row := scan.row_of(line, value):
            yield row


def json_values(scan: Scan) -> Iterator[tuple[int, object]]:
    """The values of the list, or of the sequence, each with the line where it starts."""
    source = _Source(scan.lines().texts())
    is_list = source.next_letter() == "["
    source.at += is_list
    while letter := source.next_letter():
        if is_list and letter == "]":
            return
        try:
            value = source.decode(scan.reading.max_line_bytes)
        except (ValueError, RecursionError) as error:
            return scan.problem(source.line, f"is not valid JSON: {error}", RECORDS)
        yield source.line, value
        source.at += source.next_letter() == ","
    if is_list:
        scan.problem(source.line, "the list is not closed", "Download or create the file again.")
    return None


class _Source:
    """The text from which values are decoded; what has been decoded is forgotten."""

    def __init__(self, texts: Iterator[str]) -> None:
        self.texts, self.text, self.at = texts, "", 0
        self.counted, self.line = 0, 1

    def next_letter(self) -> str:
        """The next letter that is no space, or nothing at the end."""
        while True:
            while self.at < len(self.text):
                if not self.text[self.at].isspace():
                    self._count()
                    return self.text[self.at]
                self.at += 1
            if not self._grow():
                return ""

    def decode(self, limit: int) -> object:
        """The value that starts here."""
        while True:
            try:
                value, self.at = DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if len(self.text) - self.at > limit:
                    raise ValueError(f"{error.msg}, or a record of more than {limit} characters") from None
                if not self._grow():
                    raise
            else:
                return value

    def _grow(self) -> bool:
        """Read until twice as much is known, so that a long value is not tried too often."""
        self._count()
        parts, size = [self.text[self.at :]], len(self.text) - self.at
        most, before = max(LEAST_CHARACTERS, 2 * size), size
        for text in self.texts:
            parts.append(text)
            size += len(text)
            if size >= most:
                break
        self.text, self.at, self.counted = "".join(parts), 0, 0
        return size > before

    def _count(self) -> None:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at


DECODER = json.JSONDecoder()


def _advice(scan: Scan, value: object) -> str | None:
    """The command that turns an object of records into records."""
    if not isinstance(value, dict) or scan.columns is not None or messages_in(value) is not None:
        return None
    if set(scan.schema.fields) <= {folded(str(key)) for key in value}:
        nested = [inner for key, inner in value.items() if folded(str(key)) in scan.schema.fields]
        if not all(isinstance(inner, dict | list) for inner in nested):
            return None
    name, new = scan.file.name, PurePath(scan.file.name).with_suffix(".jsonl")
    for key, inner in value.items():
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            return f"Write: jq -c {shlex.quote(f'.{json.dumps(key)}[]')} {shlex.quote(name)} > {shlex.quote(str(new))}."
    if value and all(isinstance(inner, dict | list) for inner in value.values()):
        program = (
            f"import pandas; pandas.read_json({name!r}).to_json({str(new)!r}, orient='records', lines=True)"
        )
        return f"It contains columns. Write: python -c {shlex.quote(program)}."
    return None
