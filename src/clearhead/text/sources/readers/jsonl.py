"""`.jsonl`: one JSON object, or list, a line."""

import json
from collections.abc import Iterator

from clearhead.examples import Example
from clearhead.text.sources.scan import Row, Scan


def read_jsonl(scan: Scan) -> Iterator[Example]:
    """One JSON object, or list, a line; of a text, `text`, or a conversation."""
    return scan.records(_json_rows(scan))


def _json_rows(scan: Scan) -> Iterator[Row]:
    for number, record in json_lines(scan):
        if row := scan.row_of(number, record):
            yield row


def json_lines(scan: Scan) -> Iterator[tuple[int, object]]:
    """The value of each line that is not blank."""
    for number, line in scan.lines():
        if not line.strip():
            scan.ignore("blank line")
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            advice = 'Each line must be one JSON object, such as {"text": "Hello"}.'
            scan.problem(number, f"is not valid JSON: {error}", advice)
        else:
            yield number, record
