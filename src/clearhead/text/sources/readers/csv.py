"""`.csv` after RFC 4180: columns between commas, in quotes where they contain commas, quotes or newlines.

Spreadsheets separate by semicolons where the comma is that of numbers, and others by tabs or bars: the first lines
say which. A first line `sep=;` says it too.
"""

import csv
import re
from collections import deque
from collections.abc import Iterator

from clearhead.examples import Example
from clearhead.text.sources.scan import Scan
from clearhead.text.sources.table_shape import find_delimiter, first_items
from clearhead.text.sources.tables import Fields, read_table

SEPARATOR = re.compile(r'"?sep=(.)"?')


def read_csv(scan: Scan) -> Iterator[Example]:
    """The records of a table whose columns may be quoted."""
    return read_table(scan, csv_fields, must_name=True)


def csv_fields(scan: Scan) -> Iterator[Fields]:
    """The columns of each record."""
    feed = _Feed(scan)
    delimiter = scan.reading.delimiter or _guess_delimiter(scan, feed)
    # The module's bound on a column is one for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), scan.reading.max_line_bytes))
    rows = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        feed.start()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            scan.problem(
                feed.rewind(), f"is not valid CSV: {error}", "Double every quote inside a quoted column."
            )
        else:
            yield feed.record[0][0], row


def _guess_delimiter(scan: Scan, feed: "_Feed") -> str:
    """What separates the columns, by a first line that says so, or else by the first lines."""
    first = first_items((line for _, line in scan.ahead().lines()), len)
    if first and (stated := SEPARATOR.fullmatch(first[0].strip())):
        next(feed.coming)
        scan.ignore("line sep=")
        return stated[1]
    delimiter = find_delimiter(first, scan.schema.fields) or ","
    if delimiter != ",":
        shown = "tabs" if delimiter == "\t" else repr(delimiter)
        scan.tally.guess(f"{scan.file.name}: columns are separated by {shown} (data.delimiter)")
    return delimiter


class _Feed:
    """Lines for the csv module, which can start again after the first line of a record.

    So a quote that is never closed costs its own line, not the rest of the file.
    """

    def __init__(self, scan: Scan) -> None:
        self.coming = iter(scan.lines())
        self.limit = scan.reading.max_line_bytes
        self.again: deque[tuple[int, str]] = deque()
        self.start()

    def start(self) -> None:
        """Start a record with the next line."""
        self.record: list[tuple[int, str]] = []
        self.size = 0

    def rewind(self) -> int:
        """Take back all lines of the record but the first, and give the number of that one."""
        self.again.extendleft(reversed(self.record[1:]))
        return self.record[0][0]

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, line = self.again.popleft() if self.again else next(self.coming)
        self.record.append((number, line))
        self.size += len(line)
        if self.size > self.limit:
            raise csv.Error(
                f"a quote is opened and not closed within {self.limit} bytes (data.max_line_bytes)"
            )
        return line
