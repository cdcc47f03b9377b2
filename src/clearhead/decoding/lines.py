"""A line in, a line out, for files of any size: lines enter, results leave in the same order, in constant memory.

Lines are taken a window at a time; inside a window the work may sort them by length and fill its batches. An
output file that was left half written is gone on with: its whole lines say how far the work had come.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from clearhead.errors import InputError

WINDOW = 1024  # lines sorted by length together

Result = TypeVar("Result")


def in_windows(
    lines: Iterable[str], work: Callable[[list[str]], list[Result]], first: int = 1, window: int = WINDOW
) -> Iterator[Result]:
    """The result of every line, in order; an error names the line, counted from `first`."""
    stream = iter(lines)
    while group := list(itertools.islice(stream, window)):
        try:
            yield from work(group)
        except InputError:
            yield from one_by_one(group, work, first)
        first += len(group)


def one_by_one(group: list[str], work: Callable[[list[str]], list[Result]], first: int) -> Iterator[Result]:
    """The same for a window with a faulty line: what comes before it is done, and the error says which it is."""
    for number, line in enumerate(group, first):
        try:
            yield from work([line])
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None


def escape(text: str) -> str:
    r"""A text as one line: a line break is written \n, and a backslash \\."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def whole_lines(path: Path) -> int:
    """How many whole lines a half-written file holds; what follows the last of them is cut off."""
    count, kept = 0, 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, kept = count + 1, kept + len(line)
    os.truncate(path, kept)
    return count
