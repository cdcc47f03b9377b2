"""A path enters; its numbered lines or its bytes leave, decompressed if its name ends in .gz."""

from collections.abc import Iterator
from pathlib import Path

from clearhead.errors import DataError
from clearhead.text.sources.lines import File, Lines
from clearhead.text.sources.tally import Tally

LONGEST_LINE = 1 << 20  # bytes


def file_at(path: str | Path) -> File:
    """The file at a path, which must exist."""
    place = Path(path).expanduser()
    if not place.is_file():
        what = "is a folder" if place.is_dir() else "does not exist"
        raise DataError(f"{path} {what}.\nGive the path of a file.")
    return File(str(path), place)


def lines_of(path: str | Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file; one that cannot be read is an error with its number."""
    yield from Lines(file_at(path), LONGEST_LINE, Tally())
