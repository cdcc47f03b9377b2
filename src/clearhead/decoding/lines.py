"""A line in, a line out, for files of any size: lines enter, results leave in order, in constant memory.

Lines are taken in groups; inside a group the work sorts them by length and fills its batches. An output file
that was left half written is gone on with: its whole lines say how far the work had come.
"""

import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from clearhead.errors import InputError

LARGEST = 1024  # lines sorted by length together
SMALLEST = 64  # of the first group, so that first results come soon

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_groups(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of a file in groups that grow; what comes before an error is not lost."""
    stream, size = iter(lines), SMALLEST
    while True:
        group, fault = take(stream, size)
        if group:
            yield group
        if fault is not None:
            raise fault
        if len(group) < size:
            return
        size = min(2 * size, LARGEST)


def take(stream: Iterator[str], size: int) -> tuple[list[str], InputError | None]:
    """So many lines, or those before the end or an error."""
    group: list[str] = []
    try:
        group.extend(itertools.islice(stream, size))
    except InputError as error:
        return group, error
    return group, None


def as_they_come(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of a pipe in groups of those that are there, so that who waits for an answer gets it."""
    arrived: queue.Queue[str | Exception | None] = queue.Queue(LARGEST)

    def read() -> None:
        try:
            for line in lines:
                arrived.put(line)
            arrived.put(None)
        except Exception as error:
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        group, last = wait_for(arrived)
        if group:
            yield group
        if isinstance(last, Exception):
            raise last
        if last is None:
            return


def wait_for(arrived: "queue.Queue[str | Exception | None]") -> tuple[list[str], str | Exception | None]:
    """At least one thing, and what is there besides: lines, and the end or the error after them."""
    group: list[str] = []
    item = arrived.get()
    while isinstance(item, str):
        group.append(item)
        if len(group) == LARGEST or arrived.empty():
            break
        item = arrived.get()
    return group, item


def results(
    groups: Iterable[list[str]],
    prepare: Callable[[str], Task],
    work: Callable[[list[Task]], Iterable[Result]],
    first: int = 1,
) -> Iterator[Result]:
    """The result of every line, in order; an error names the line, counted from `first`.

    `prepare` refuses a line that cannot be worked on; the lines before it are done all the same.
    """
    numbers = itertools.count(first)
    for group in groups:
        tasks, fault = [], None
        for line, number in zip(group, numbers, strict=False):
            try:
                tasks.append(prepare(line))
            except InputError as error:
                fault = InputError(f"line {number}: {error}")
                break
        if tasks:
            yield from work(tasks)
        if fault is not None:
            raise fault


def escape(text: str) -> str:
    r"""A text as one line: its line breaks are written \n and \r."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


def whole_lines(path: Path) -> tuple[int, int]:
    """How many whole lines a half-written file holds, and their bytes."""
    count, size = 0, 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                count, size = count + 1, size + len(line)
    return count, size


def cut(path: Path, size: int) -> None:
    """Takes away what follows the whole lines."""
    if path.stat().st_size > size:
        os.truncate(path, size)
