"""Records with named values: `.jsonl`, one JSON object a line, and `.parquet`, one row a record."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from clearhead.config.data import Column
from clearhead.errors import DataError
from clearhead.text.lines import DAMAGE
from clearhead.text.messages import FORMAT
from clearhead.text.scan import Numbered, Row, Scan

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

ROWS_AT_ONCE = 256


def read_jsonl(scan: Scan) -> Iterator[Numbered]:
    """One JSON object, or list, a line; of a text, `text`, or `messages` where it is a conversation."""
    return scan.records(_json_rows(scan))


def _json_rows(scan: Scan) -> Iterator[Row]:
    fields = scan.want.fields
    numbers = range(1, len(fields) + 1)
    for number, line in scan.lines():
        if not line.strip():
            scan.pass_over("blank line")
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            advice = 'Each line should be one JSON object, such as {"text": "Hello"}.'
            scan.problem(number, f"is not JSON: {error}", advice)
            continue
        columns = scan.columns or (numbers if isinstance(record, list) else fields)
        if scan.columns is None and scan.want.kind == "text" and is_conversation(record):
            columns = ("messages",)
            if not isinstance(record["messages"], list):
                scan.problem(number, "has messages that are no list", f"A conversation is {FORMAT}.")
                continue
        if row := scan.pick(number, record, columns):
            yield row


def is_conversation(record: object) -> bool:
    """Whether a record holds messages, and no text beside them."""
    return isinstance(record, dict) and "messages" in record and "text" not in record


def read_parquet(scan: Scan) -> Iterator[Numbered]:
    """The rows of a parquet file, a few at a time."""
    return scan.records(_parquet_rows(scan))


def _parquet_rows(scan: Scan) -> Iterator[Row]:
    pyarrow = _import_pyarrow(scan)
    number = 0
    with scan.file.open() as stream, tempfile.TemporaryFile() as unpacked:
        try:
            if scan.file.is_gzip:
                shutil.copyfileobj(stream, unpacked)
            table = pyarrow.parquet.ParquetFile(unpacked if scan.file.is_gzip else stream)
            columns = _columns(scan, table)
            for batch in table.iter_batches(ROWS_AT_ONCE, columns=columns) if columns else ():
                for record in _records(batch):
                    number += 1
                    scan.tally.lines += 1
                    if isinstance(record, UnicodeDecodeError):
                        scan.problem(number, "is not UTF-8", "Make the file again, from text in UTF-8.")
                    elif row := scan.pick(number, record, columns):
                        yield row
        except (pyarrow.ArrowException, *DAMAGE) as error:
            reason = str(error).splitlines()[0]
            scan.problem(
                number + 1, f"cannot be read as parquet from here on ({reason})", "Fetch or make it again."
            )


def _import_pyarrow(scan: Scan) -> ModuleType:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f"{scan.file.name} needs the package pyarrow, which is not installed.\n"
            "Install it (pip install 'clearhead[hub]'), or convert the file to .jsonl or .csv."
        ) from None
    return pyarrow


def _columns(scan: Scan, table: "ParquetFile") -> list[str]:
    """The names of the wanted columns; none, reported, where one is not there."""
    names = table.schema_arrow.names
    chosen = []
    for column in scan.columns or scan.want.fields:
        name = _name(column, names)
        if name is None:
            shown = ", ".join(repr(name) for name in names)
            scan.problem(
                0, f"has no column {column!r}; it has {shown}", "Name columns that are there in data.columns."
            )
            return []
        chosen.append(name)
    return chosen


def _name(column: Column, names: list[str]) -> str | None:
    if isinstance(column, int):
        return names[column - 1] if column <= len(names) else None
    return column if column in names or column.partition(".")[0] in names else None


def _records(batch: "RecordBatch") -> Iterator[object]:
    """The rows of a batch; in place of one whose text is not UTF-8, the error."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for at in range(len(batch)):
            try:
                yield from batch.slice(at, 1).to_pylist()
            except UnicodeDecodeError as error:
                yield error
