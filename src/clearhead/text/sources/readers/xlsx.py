"""`.xlsx`: the first sheet of a workbook, through the package `openpyxl` where it is installed.

Rows are read in a stream and values as they were last computed; no macro, formula or link is followed. What a workbook
takes when it is unpacked is bounded before it is opened.
"""

import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from datetime import date, time
from types import ModuleType
from typing import IO, Any, cast

from clearhead.errors import DataError
from clearhead.examples import Example
from clearhead.text.sources.scan import Scan
from clearhead.text.sources.tables import Fields, read_table

MOST_BYTES = 1 << 28  # of a workbook when it is unpacked; its shared texts are in memory
SAVE = "Save the sheet as .csv."


def read_xlsx(scan: Scan) -> Iterator[Example]:
    """The rows of the first sheet."""
    return read_table(scan, xlsx_fields, must_name=True)


def xlsx_fields(scan: Scan) -> Iterator[Fields]:
    """The cells of each row as texts; all rows are as wide as the first that is not empty."""
    width = 0
    openpyxl = _import_openpyxl(scan)
    with scan.file.open() as stream, tempfile.TemporaryFile() as unpacked:
        if scan.file.is_gzip:
            shutil.copyfileobj(stream, unpacked)
        source = cast(IO[bytes], unpacked if scan.file.is_gzip else stream)
        for number, row in enumerate(_sheet_rows(scan, openpyxl, source), 1):
            scan.tally.lines += 1
            cells = [_cell_text(value) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            width = width or len(cells)
            yield number, cells + [""] * (width - len(cells)) if cells else []


def _sheet_rows(scan: Scan, openpyxl: ModuleType, source: IO[bytes]) -> Iterator[tuple[object, ...]]:
    number = 0
    try:
        with zipfile.ZipFile(source) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > MOST_BYTES:
            fault = f"takes {size:,} bytes when it is unpacked, more than {MOST_BYTES:,}"
            return scan.problem(0, fault, SAVE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and forms, which are not read
            book = openpyxl.load_workbook(source, read_only=True, data_only=True, keep_links=False)
            sheet: Any = book.worksheets[0]
            sheet.reset_dimensions()  # which some programs write wrong
        if len(book.worksheets) > 1:
            scan.tally.guess(
                f"{scan.file.name}: the first sheet of {len(book.worksheets)} is read, {sheet.title!r}"
            )
        rows = sheet.iter_rows(values_only=True)
        while (row := _next_row(rows)) is not None:
            number += 1
            yield row
    except zipfile.BadZipFile:
        scan.problem(0, "is not an .xlsx, or has a password", SAVE)
    except DataError:
        raise
    except Exception as error:  # whatever the package comes up with for a damaged workbook
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        scan.problem(number + 1, f"cannot be read as .xlsx from here on ({reason})", SAVE)
    return None


def _next_row(rows: Iterator[tuple[object, ...]]) -> tuple[object, ...] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return next(rows, None)


def _import_openpyxl(scan: Scan) -> ModuleType:
    try:
        import openpyxl
    except ImportError:
        raise DataError(
            f"{scan.file.name} needs the package openpyxl, which is not installed.\n"
            "Install it (pip install 'clearhead[xlsx]'), or save the sheet as .csv."
        ) from None
    return openpyxl


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)
