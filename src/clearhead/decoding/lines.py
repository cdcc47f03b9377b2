"""A line in, a line out, for files of any size: lines enter, results leave in order, in constant memory.

Lines are taken in groups; inside a group the work sorts them by length and fills its batches. A line that cannot be
processed stops the work, is skipped, or is marked.
"""

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, TypeVar

from clearhead.errors import InputError

LARGEST = 1024  # lines sorted by length together
SMALLEST = 32  # of the first group, so that first results come soon
SOON, LATE = 2.0, 8.0  # seconds: a group done sooner may be larger, one that takes longer should be smaller

MOST_FAULTS = 10  # that are listed

OnError = Literal["stop", "skip", "mark"]

Line = TypeVar("Line")
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Faults(Generic[Result]):
    """Lines that could not be processed: what to do with them, and which they were."""

    on_error: OnError = "stop"
    mark: Callable[[int, str], Result] | None = (
        None  # what takes the place of a result, from number and message
    )
    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, error: InputError) -> list[Result]:
        """Counts a line; what is written in its place, which is nothing if it is skipped."""
        if self.on_error == "stop":
            raise InputError(f"line {number}: {error}")
        self.count += 1
        if len(self.first) < MOST_FAULTS:
            self.first.append((number, str(error)))
        return [self.mark(number, str(error))] if self.on_error == "mark" and self.mark else []


@dataclass(frozen=True)
class Finish:
    """What follows the last line of a pipe: nothing, or the error that ended it."""

    error: Exception | None = None


def in_groups(lines: Iterable[Line]) -> Iterator[list[Line]]:
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


def take(stream: Iterator[Line], size: int) -> tuple[list[Line], InputError | None]:
    """So many lines, or those before the end or an error."""
    group: list[Line] = []
    try:
        group.extend(itertools.islice(stream, size))
    except InputError as error:
        return group, error
    return group, None


def as_they_come(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The lines of a pipe in groups of those that have arrived, so that whoever waits for an answer gets it."""
    arrived: queue.Queue[Line | Finish] = queue.Queue(LARGEST)

    def read() -> None:
        try:
            for line in lines:
                arrived.put(line)
            arrived.put(Finish())
        except Exception as error:
            arrived.put(Finish(error))

    threading.Thread(target=read, daemon=True).start()
    size = SMALLEST
    while True:
        group, last = wait_for(arrived, size)
        began = time.monotonic()
        if group:
            yield group
        if last is not None and last.error is not None:
            raise last.error
        if last is not None:
            return
        size = next_size(size, len(group), time.monotonic() - began)


def wait_for(arrived: "queue.Queue[Line | Finish]", size: int) -> tuple[list[Line], Finish | None]:
    """At least one item, and what else has arrived: up to `size` lines, and the end after them if it has come."""
    group: list[Line] = []
    item = arrived.get()
    while not isinstance(item, Finish):
        group.append(item)
        if len(group) == size or arrived.empty():
            return group, None
        item = arrived.get()
    return group, item


def results(
    groups: Iterable[list[Line]],
    prepare: Callable[[Line], Item],
    work: Callable[[list[Item]], Iterable[Result]],
    first: int = 1,
    faults: Faults[Result] | None = None,
    done: int = 0,
) -> Iterator[Result]:
    """The result of every line, in order; lines are counted from `first`, and so many results are `done` already.

    `prepare` rejects a line that cannot be processed; `faults` says what is done then. The lines before it are done
    in any case.
    """
    numbers, faults = itertools.count(first), faults or Faults()
    for group in groups:
        items: list[Item] = []
        marks: list[tuple[int, Result]] = []  # after how many items
        fault = None
        for line, number in zip(group, numbers, strict=False):
            try:
                found, marked = [prepare(line)], []
            except InputError as error:
                try:
                    found, marked = [], faults.add(number, error)
                except InputError as stop:
                    fault = stop
                    break
            if done and (found or marked):
                done -= 1
                continue
            marks += [(len(items), mark) for mark in marked]
            items += found
        yield from merged(list(work(items)) if items else [], marks)
        if fault is not None:
            raise fault


def merged(answers: list[Result], marks: list[tuple[int, Result]]) -> Iterator[Result]:
    """The answers, and the marks each after so many of them."""
    given = 0
    for place, mark in marks:
        yield from answers[given:place]
        yield mark
        given = place
    yield from answers[given:]


def escape(text: str) -> str:
    r"""A text as one line: its line breaks are written \n and \r."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


def whole_lines(path: Path) -> tuple[int, int]:
    """How many complete lines an incomplete file has, and their bytes."""
    count, size, read = 0, 0, 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):  # not by lines, of which one could be as long as the file
            count += chunk.count(b"\n")
            size = read + chunk.rfind(b"\n") + 1 if b"\n" in chunk else size
            read += len(chunk)
    return count, size


def truncate(path: Path, size: int) -> None:
    """Removes what follows the complete lines."""
    if path.stat().st_size > size:
        os.truncate(path, size)
