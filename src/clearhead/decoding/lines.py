"""A line in, a line out, for files of any size: lines enter, results leave in order, in constant memory.

Lines are taken in groups; inside a group the work sorts them by length and fills its batches. An output file
that was left half written is gone on with: its whole lines say how far the work had come.
"""

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from clearhead.errors import InputError

LARGEST = 1024  # lines sorted by length together
SMALLEST = 32  # of the first group, so that first results come soon
SOON, LATE = 2.0, 8.0  # seconds: a group done sooner may be larger, one that takes longer should be smaller

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_groups(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of a file in groups that grow while they are done soon; what comes before an error is not lost."""
    stream, size = iter(lines), SMALLEST
    while True:
        group, fault = take(stream, size)
        began = time.monotonic()
        if group:
            yield group
        if fault is not None:
            raise fault
        if len(group) < size:
            return
        size = next_size(size, len(group), time.monotonic() - began)


def next_size(size: int, count: int, seconds: float) -> int:
    """The size of a group after one of so many lines took so long, so that results come every few seconds."""
    if seconds > LATE:
        return max(size // 2, SMALLEST)
    return min(2 * size, LARGEST) if seconds < SOON and count == size else size


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
    size = SMALLEST
    while True:
        group, last = wait_for(arrived, size)
        began = time.monotonic()
        if group:
            yield group
        if isinstance(last, Exception):
            raise last
        if last is None:
            return
        size = next_size(size, len(group), time.monotonic() - began)


def wait_for(
    arrived: "queue.Queue[str | Exception | None]", size: int
) -> tuple[list[str], str | Exception | None]:
    """At least one thing, and what is there besides: up to `size` lines, and the end or the error after them."""
    group: list[str] = []
    item = arrived.get()
    while isinstance(item, str):
        group.append(item)
        if len(group) == size or arrived.empty():
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
    count, size, read = 0, 0, 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):  # not by lines, of which one could be as long as the file
            count += chunk.count(b"\n")
            size = read + chunk.rfind(b"\n") + 1 if b"\n" in chunk else size
            read += len(chunk)
    return count, size


def cut(path: Path, size: int) -> None:
    """Takes away what follows the whole lines."""
    if path.stat().st_size > size:
        os.truncate(path, size)
