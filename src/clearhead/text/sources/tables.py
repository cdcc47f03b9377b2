"""Columns in lines, for `.csv`, `.tsv` and `.xlsx`: the columns of each line enter, rows of the wanted texts leave.

The first line gives the names of the columns if the recipe names them, or if it looks like names; all lines have as
many columns as the first.
"""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace

from clearhead.config.data import Column
from clearhead.examples import Example
from clearhead.text.sources.dialogues import KEYS, LISTS, messages_in
from clearhead.text.sources.scan import Scan, Schema, TextRow
from clearhead.text.sources.table_shape import DELIMITERS, first_items, has_header
from clearhead.text.sources.values import folded

Fields = tuple[int, list[str]]  # a line and its columns
FieldReader = Callable[[Scan], Iterator[Fields]]


def read_table(scan: Scan, read_fields: FieldReader, must_name: bool) -> Iterator[Example]:
    """The examples of a table; for a language model, conversations if its columns are those of instruction data."""
    names = _instruction_columns(scan, read_fields)
    if not names:
        return scan.examples(table_rows(scan, read_fields, must_name))
    by_name = replace(scan, reading=scan.reading.replace(columns=names))
    records = (
        (line, dict(zip(names, row, strict=True))) for line, row in table_rows(by_name, read_fields, True)
    )
    rows = (scan.row_of(line, record) for line, record in records)
    return scan.records(row for row in rows if row is not None)


def _instruction_columns(scan: Scan, read_fields: FieldReader) -> tuple[str, ...]:
    """The columns of instruction data, if the first line names them and nothing else is asked for."""
    if scan.columns is not None or scan.schema != Schema("text") or scan.reading.header is False:
        return ()
    first = next((fields for _, fields in read_fields(scan.ahead()) if any(fields)), [])
    names = [folded(field) for field in first]
    is_known = messages_in(dict.fromkeys(names, "")) is not None and not set(LISTS) & set(names)
    return tuple(name for name in KEYS if name in names) if is_known else ()


def table_rows(scan: Scan, read_fields: FieldReader, must_name: bool) -> Iterator[TextRow]:
    """The wanted texts of each line; `must_name` says whether a table without our names is an error."""
    places: list[int] | None = None
    is_labelled = scan.schema.fields[-1] == "label"
    first, width = 0, 0
    for number, fields in read_fields(scan):
        if fields in ([], [""]):
            scan.ignore("blank line")
            continue
        if places is None:
            columns, is_header = _columns(scan, fields, None if must_name else read_fields)
            places = _places(scan, number, fields, columns)
            if places is None:
                return
            first, width = number, len(fields)
            if is_header:
                continue
        if len(fields) != width:
            scan.problem(
                number,
                f"has {_amount(fields)}, but line {first} has {width}",
                "Every line needs the same number of columns: look for a missing or extra delimiter.",
            )
        else:
            texts = [fields[place] for place in places]
            yield number, [*texts[:-1], texts[-1].strip()] if is_labelled else texts


def _columns(
    scan: Scan, fields: list[str], read_fields: FieldReader | None
) -> tuple[tuple[Column, ...], bool]:
    """Which columns are wanted, and whether the first line is a header: by its names, else by the lines below it."""
    wanted, header = scan.schema.fields, scan.reading.header
    if scan.columns is not None:
        by_name = any(isinstance(column, str) for column in scan.columns)
        return scan.columns, by_name if header is None else header
    if header is not False and set(wanted) <= set(map(folded, fields)):
        return wanted, True
    if header is None and read_fields is None:
        return wanted, True  # which are missing, and `_places` reports it
    if header is None and read_fields is not None and len(wanted) <= len(fields):
        rows = first_items(read_fields(scan.ahead()), lambda line: sum(map(len, line[1])))
        header = has_header([row for _, row in rows if any(row)])
        if header:
            names = ", ".join(map(repr, fields))
            scan.tally.guess(f"{scan.file.name}: the first line is a header (data.header): {names[:200]}")
    return tuple(range(1, len(wanted) + 1)), bool(header)


def _places(scan: Scan, number: int, fields: list[str], columns: tuple[Column, ...]) -> list[int] | None:
    """The index of each column; or None, reported, if one is missing or ambiguous."""
    places = []
    for column in columns:
        if isinstance(column, int):
            found = [column - 1] if column <= len(fields) else []
            fault = f"has {_amount(fields)}, so there is no column {column}"
        else:
            found = _named(fields, column)
            amount = "two columns" if found else "no column"
            shown = ", ".join(repr(field.strip()[:30]) for field in fields[:20])
            fault = f"has {amount} named {column!r}; it has {shown}"
        if len(found) != 1:
            scan.problem(number, fault, _advice(scan, fields))
            return None
        places.append(found[0])
    return places


def _named(fields: list[str], name: str) -> list[int]:
    """The columns of this name; of names that differ in case, the one that is written so."""
    exact = [at for at, field in enumerate(fields) if field.strip() == name.strip()]
    return exact or [at for at, field in enumerate(fields) if folded(field) == folded(name)]


def _advice(scan: Scan, fields: list[str]) -> str:
    """The options that would read a table whose columns were not found."""
    options, count = "", len(scan.schema.fields)
    if len(fields) == 1 and count > 1:
        others = [mark for mark in DELIMITERS if len(fields[0].split(mark)) >= count]
        if not others:
            return f"The columns of {' and '.join(scan.schema.fields)} are needed: set data.delimiter."
        options = f"Columns seem separated by {others[0]!r}. "
        fields = [name.strip() for name in fields[0].split(others[0])]
    names, numbers = fields[:count], ",".join(str(at + 1) for at in range(count))
    is_short = all(name.strip() and "," not in name and len(name) < 40 for name in names)
    chosen = shlex.quote(",".join(name.strip() for name in names)) if is_short else numbers
    delimiter = f"--data.delimiter {shlex.quote(others[0])} " if options else ""
    return (
        f"{options}Add {delimiter}--data.columns {chosen}, with the columns for "
        f"{' and '.join(scan.schema.fields)}, or --data.columns {numbers} if there is no header."
    )


def _amount(fields: list[str]) -> str:
    return "1 column" if len(fields) == 1 else f"{len(fields)} columns"
