"""`.parquet`: rows of named columns, through the package `pyarrow` where it is installed."""

import shutil
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from clearhead.config.data import Column
from clearhead.errors import DataError
from clearhead.examples import Example
from clearhead.text.sources.dialogues import KEYS, messages_in
from clearhead.text.sources.lines import DAMAGE
from clearhead.text.sources.scan import Row, Scan
from clearhead.text.sources.values import named_alike

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

ROWS_AT_ONCE = 256


def read_parquet(scan: Scan) -> Iterator[Example]:
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
                        scan.problem(
                            number, "is not valid UTF-8", "Write the file again, from text in UTF-8."
                        )
                    elif row := _row(scan, number, record, columns):
                        yield row
        except (pyarrow.ArrowException, *DAMAGE) as error:
            reason = str(error).splitlines()[0]
            scan.problem(
                number + 1,
                f"cannot be read as parquet from here on ({reason})",
                "Download or create it again.",
            )


def _row(scan: Scan, number: int, record: object, columns: list[str]) -> Row | None:
    is_conversation = _holds_conversations(scan, columns)
    return scan.row_of(number, record) if is_conversation else scan.pick(number, record, columns)


def _holds_conversations(scan: Scan, names: list[str]) -> bool:
    is_asked = scan.columns is None and scan.schema.kind == "text"
    return is_asked and messages_in(dict.fromkeys(names, "")) is not None


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
    """The names of the wanted columns; none, reported, where one is missing."""
    names = table.schema_arrow.names
    if _holds_conversations(scan, names):
        return [name for name in names if name in KEYS]
    chosen = []
    for column in scan.columns or scan.schema.fields:
        name = _name(column, names)
        if name is None:
            shown = ", ".join(repr(name) for name in names)
            scan.problem(
                0, f"has no column {column!r}; it has {shown}", "Choose columns that exist with data.columns."
            )
            return []
        chosen.append(name)
    return chosen


def _name(column: Column, names: list[str]) -> str | None:
    if isinstance(column, int):
        return names[column - 1] if column <= len(names) else None
    if column in names or column.partition(".")[0] in names:
        return column
    return named_alike(names, column)


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
