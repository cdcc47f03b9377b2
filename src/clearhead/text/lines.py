"""Bytes enter, numbered lines of text leave: whatever is no line of UTF-8 becomes a problem with its number.

A line ends with `\\n` or `\\r\\n`, kept as it is, and with nothing else: U+2028, a form feed or a lone `\\r`
are characters of a line. Memory stays bounded by the longest allowed line, whatever the file holds.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clearhead.errors import DataError
from clearhead.text.problems import Place, Tally

BLOCK_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"
DAMAGE = (EOFError, OSError, zlib.error)

# The first bytes of what is often taken for text; none of them can begin a text in UTF-8.
SIGNATURES = {
    b"\x1f\x8b": ("is gzip data", "Let its name end in .gz, and it is unpacked while it is read."),
    b"\xff\xfe": ("is UTF-16, not UTF-8", "Convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW."),
    b"\xfe\xff": ("is UTF-16, not UTF-8", "Convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW."),
    b"PK\x03\x04": ("is a zip archive", "Unpack it first."),
    b"\xfd7zXZ": ("is xz data", "Unpack it first."),
    b"\x28\xb5\x2f\xfd": ("is zstd data", "Unpack it first."),
}


@dataclass(frozen=True, slots=True)
class File:
    """A file to read: where it lies, and the name under which a user knows it."""

    name: str
    path: Path
    is_pipe: bool = False

    @property
    def is_gzip(self) -> bool:
        """Whether it is unpacked while it is read."""
        return self.path.name.lower().endswith(".gz")

    def open(self) -> io.BufferedIOBase:
        """The bytes of the file, unpacked where its name ends in .gz."""
        try:
            return gzip.open(self.path, "rb") if self.is_gzip else self.path.open("rb")
        except OSError as error:
            raise DataError(
                f"{self.name} cannot be opened: {error.strerror}.\nCheck the path and the rights to read it."
            ) from None


class Lines:
    """The lines of one file with their numbers; `count` is how many were passed so far, good or bad."""

    def __init__(self, file: File, limit: int, tally: Tally) -> None:
        self.file, self.limit, self.tally = file, limit, tally
        self.count = 0
        self.is_damaged = False

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for first, text in self.stretches():
            yield from enumerate(io.StringIO(text, newline="\n"), first)

    def stretches(self) -> Iterator[tuple[int, str]]:
        """Many whole lines at once, each time with the number of the first."""
        with self.file.open() as stream:
            for whole in self._whole_lines(stream):
                first = self.count + 1
                passed = whole.count(b"\n") + (not whole.endswith(b"\n"))
                self.count += passed
                self.tally.lines += passed
                yield from self._decode(whole, first)

    def problem(self, line: int, message: str, advice: str) -> None:
        """Report a line of this file."""
        self.tally.problem(Place(self.file.name, line), message, advice)

    def _whole_lines(self, stream: io.BufferedIOBase) -> Iterator[bytes]:
        """Blocks that end where a line ends; a line longer than allowed is reported and left out."""
        held: list[bytes] = []
        size, too_long = 0, False
        for block in self._blocks(stream):
            cut = block.rfind(b"\n") + 1
            if cut and too_long:
                start = block.index(b"\n") + 1
                self._count_one()
                if start < cut:
                    yield block[start:cut]
            elif cut:
                yield b"".join([*held, block[:cut]])
            if cut:
                held, size, too_long = [block[cut:]], len(block) - cut, False
            elif not too_long:
                held.append(block)
                size += len(block)
            if size > self.limit and not too_long:
                self._report_length(self.count + 1)
                held, size, too_long = [], 0, True
        if too_long or (size and self.is_damaged):
            self._count_one()
        elif size:
            yield b"".join(held)

    def _blocks(self, stream: io.BufferedIOBase) -> Iterator[bytes]:
        """The bytes of the file without its byte-order mark, up to the end or to where it is damaged."""
        try:
            block = stream.read(BLOCK_BYTES)
            for signature, (message, advice) in SIGNATURES.items():
                if block.startswith(signature):
                    return self.problem(0, message, advice)
            block = block.removeprefix(BOM)
            while block:
                yield block
                block = stream.read(BLOCK_BYTES)
        except DAMAGE as error:
            self.is_damaged = True
            self.problem(
                self.count + 1,
                f"the file is damaged from here on ({error})",
                "Fetch or make it again; `gzip -t` tells whether gzip data is whole.",
            )

    def _decode(self, whole: bytes, first: int) -> Iterator[tuple[int, str]]:
        if len(whole) <= self.limit and b"\0" not in whole:
            try:
                text = whole.decode()
            except UnicodeDecodeError:
                pass  # some line is bad: find it below
            else:
                yield first, text
                return
        for number, line in enumerate(io.BytesIO(whole), first):
            if len(line) > self.limit:
                self._report_length(number)
            elif b"\0" in line:
                self.problem(
                    number, "has a NUL byte, which no text has", "Is this a text file, and in UTF-8?"
                )
            else:
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    self._report_bytes(number, error)
                else:
                    yield number, text

    def _count_one(self) -> None:
        self.count += 1
        self.tally.lines += 1

    def _report_length(self, number: int) -> None:
        self.problem(
            number,
            f"is longer than {self.limit} bytes",
            "Break the line, or raise data.max_line_bytes if it is meant to be so long.",
        )

    def _report_bytes(self, number: int, error: UnicodeDecodeError) -> None:
        self.problem(
            number,
            f"byte {error.object[error.start]:#04x} at column {error.start + 1} is not UTF-8",
            "Is this a text file? Then convert it, for example: iconv -f LATIN1 -t UTF-8 OLD > NEW.",
        )
