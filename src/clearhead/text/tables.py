"""Columns in lines: `.csv` after RFC 4180, and `.tsv`, where a tab or a newline always ends a column.

The first line gives the names of the columns where the recipe names them; all lines have as many columns as
the first.
"""

import csv
from collections import deque
from collections.abc import Iterable, Iterator

from clearhead.config.data import Column
from clearhead.text.documents import clean
from clearhead.text.scan import Numbered, Scan, TextRow

Fields = tuple[int, list[str]]  # a line and its columns


def read_tsv(scan: Scan) -> Iterator[Numbered]:
    """Columns between tabs, without quoting."""
    delimiter = scan.reading.delimiter or "\t"
    lines = ((number, clean(line).removesuffix("\n").split(delimiter)) for number, line in scan.lines())
    return scan.examples(_rows(scan, lines, must_name=False))


def read_csv(scan: Scan) -> Iterator[Numbered]:
    """Columns between commas, in quotes where they hold commas, quotes or newlines."""
    return scan.examples(_rows(scan, _quoted(scan), must_name=True))


def _rows(scan: Scan, lines: Iterable[Fields], must_name: bool) -> Iterator[TextRow]:
    places: list[int] | None = None
    is_labelled = scan.want.fields[-1] == "label"
    first, width = 0, 0
    for number, fields in lines:
        if fields in ([], [""]):
            scan.pass_over("blank line")
            continue
        if places is None:
            columns, is_header = _columns(scan, fields, must_name)
            places = _places(scan, number, fields, columns)
            if places is None:
                return
            first, width = number, len(fields)
            if is_header:
                continue
        if len(fields) != width:
            scan.problem(
                number,
                f"{_amount(fields)} where line {first} has {width}",
                "Every line needs the same columns; look for a delimiter too many or too few.",
            )
        else:
            texts = [fields[place] for place in places]
            yield number, [texts[0], texts[1].strip()] if is_labelled else texts


def _columns(scan: Scan, fields: list[str], must_name: bool) -> tuple[tuple[Column, ...], bool]:
    """Which columns are wanted, and whether the first line is a header."""
    wanted, header = scan.want.fields, scan.reading.header
    if scan.columns is not None:
        by_name = any(isinstance(column, str) for column in scan.columns)
        return scan.columns, by_name if header is None else header
    if header is not False and set(wanted) <= {field.strip() for field in fields}:
        return wanted, True
    if header is None and must_name:
        return wanted, True  # which are not there, and `_places` says so
    return tuple(range(1, len(wanted) + 1)), bool(header)


def _places(scan: Scan, number: int, fields: list[str], columns: tuple[Column, ...]) -> list[int] | None:
    """Where the columns stand, from 0; or None, reported, where one is not there or there twice."""
    names = [field.strip() for field in fields]
    shown = ", ".join(repr(name[:30]) for name in names[:20])
    for column in columns:
        if isinstance(column, int) and column > len(fields):
            fault = f"has {_amount(fields)}, so no column {column}"
        elif isinstance(column, str) and names.count(column) != 1:
            number_of = "two columns" if column in names else "no column"
            fault = f"{number_of} named {column!r} in the first line: {shown}"
        else:
            continue
        scan.problem(
            number,
            fault,
            "Name the columns in data.columns, or give their numbers, such as [1, 2], where no header is; "
            "data.delimiter says what separates them.",
        )
        return None
    return [column - 1 if isinstance(column, int) else names.index(column) for column in columns]


def _amount(fields: list[str]) -> str:
    return "1 column" if len(fields) == 1 else f"{len(fields)} columns"


def _quoted(scan: Scan) -> Iterator[Fields]:
    feed = _Feed(scan)
    # The module's bound on a column is one for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), scan.reading.max_line_bytes))
    rows = csv.reader(feed, delimiter=scan.reading.delimiter or ",", strict=True)
    while True:
        feed.begin()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            scan.problem(feed.rewind(), f"is not CSV: {error}", "Quotes inside a quoted column are doubled.")
        else:
            yield feed.record[0][0], row


class _Feed:
    """Lines for the csv module, which can begin again after the first line of a record.

    So a quote that is never closed costs its own line, and not the rest of the file.
    """

    def __init__(self, scan: Scan) -> None:
        self.coming = iter(scan.lines())
        self.limit = scan.reading.max_line_bytes
        self.again: deque[tuple[int, str]] = deque()
        self.begin()

    def begin(self) -> None:
        """A record begins with the next line."""
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
