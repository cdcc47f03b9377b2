"""Bytes enter, numbered lines of text leave: whatever cannot be decoded becomes a problem with its number.

A line ends with `\\n` or `\\r\\n`, kept as it is, and with nothing else: U+2028, a form feed or, in a file with
`\\n`, a lone `\\r` are characters of a line. Memory stays bounded by the longest allowed line, whatever the file
contains.
"""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from clearhead.errors import DataError
from clearhead.text.sources.encodings import UTF_8, Encoding, find_encoding, to_utf8
from clearhead.text.sources.tally import Place, Tally

BLOCK_BYTES = 1 << 16
SAMPLE_BYTES = 1 << 16  # from which the encoding is found
DAMAGE = (EOFError, OSError, zlib.error)
PACKED = (
    4  # times that text is usually larger than its gzip; where in doubt too many, for a sample of all of it
)

# The first bytes of what is often taken for text.
SIGNATURES = {
    b"\x1f\x8b": ("is gzip data", "Rename it to end in .gz, and it will be decompressed while it is read."),
    b"PK\x03\x04": (
        "is a zip archive",
        "Extract it first: unzip FILE; or rename an Excel sheet to end in .xlsx.",
    ),
    b"%PDF-": ("is a PDF", "Extract its text first: pdftotext FILE NEW.txt."),
    b"\xd0\xcf\x11\xe0": (
        "is an old Office file",
        "Convert it: libreoffice --headless --convert-to csv FILE.",
    ),
    b"\xfd7zXZ": ("is xz data", "Decompress it first: unxz FILE."),
    b"\x28\xb5\x2f\xfd": ("is zstd data", "Decompress it first: unzstd FILE."),
}


@dataclass(frozen=True, slots=True)
class File:
    """A file to read: its path, and the name by which a user knows it."""

    name: str
    path: Path
    is_pipe: bool = False

    @property
    def is_gzip(self) -> bool:
        """Whether it is decompressed while it is read."""
        return self.path.name.lower().endswith(".gz")

    def open(self) -> io.BufferedIOBase:
        """The bytes of the file, decompressed where its name ends in .gz."""
        try:
            return gzip.open(self.path, "rb") if self.is_gzip else self.path.open("rb")
        except OSError as error:
            raise DataError(
                f"{self.name} cannot be opened: {error.strerror}.\nCheck the path and its permissions."
            ) from None


def unpacked_bytes(path: Path) -> int:
    """The size of a file once decompressed: for gzip an estimate, which costs no reading."""
    return path.stat().st_size * (PACKED if path.suffix == ".gz" else 1)


class Lines:
    """The lines of one file with their numbers; `count` is how many have been read so far, good or bad."""

    def __init__(self, file: File, limit: int, tally: Tally, encoding: str | None = None) -> None:
        self.file, self.limit, self.tally, self.stated = file, limit, tally, encoding
        self.encoding = Encoding(UTF_8)
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
        """Blocks that end where a line ends; a line longer than allowed is reported and skipped."""
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
        """The file in UTF-8 without its byte-order mark, up to the end or to where it is damaged."""
        sample, damage = _sample(stream)
        for signature, (message, advice) in SIGNATURES.items():
            if sample.startswith(signature):
                return self.problem(0, message, advice)
        self.encoding = find_encoding(sample, self.stated)
        if self.encoding.is_guess:
            self.tally.guess(f"{self.file.name} is read as {self.encoding.spelled} (data.encoding)")
        try:
            for block in to_utf8(sample, _following(stream, damage), self.encoding):
                yield from (block[at : at + BLOCK_BYTES] for at in range(0, len(block), BLOCK_BYTES))
        except DAMAGE as error:
            self.is_damaged = True
            self.problem(
                self.count + 1,
                f"the file is damaged from here on ({error})",
                "Download or create it again; `gzip -t` tests a gzip file.",
            )

    def texts(self) -> Iterator[str]:
        """The text of the file in blocks of any length, for formats whose lines mean nothing."""
        decoder = codecs.getincrementaldecoder(UTF_8)()
        with self.file.open() as stream:
            for block in chain(self._blocks(stream), [b""]):
                try:
                    text = decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    return self._report_bytes(self.count + 1, error)
                self.count += text.count("\n")
                yield text
        self.tally.lines += self.count
        return None

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
                    number, "contains a NUL byte, so it is not text", "Is this a text file in UTF-8?"
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
            "Split the line, or raise data.max_line_bytes.",
        )

    def _report_bytes(self, number: int, error: UnicodeDecodeError) -> None:
        where = f"byte {error.start + 1} ({error.object[error.start]:#04x}) is not"
        if self.encoding.name != UTF_8:  # whose bytes are no longer known
            where = "contains bytes that are not"
        self.problem(
            number,
            f"{where} valid {self.encoding.spelled}",
            "If this is text, state how it is encoded: --data.encoding cp1252, for example.",
        )


def _sample(stream: io.BufferedIOBase) -> tuple[bytes, Exception | None]:
    """The first bytes of a file, and the damage that ended them."""
    sample = bytearray()
    try:
        while len(sample) < SAMPLE_BYTES and (block := stream.read(BLOCK_BYTES)):
            sample += block
    except DAMAGE as error:
        return bytes(sample), error
    return bytes(sample), None


def _following(stream: io.BufferedIOBase, damage: Exception | None) -> Iterator[bytes]:
    if damage is not None:
        raise damage
    while block := stream.read(BLOCK_BYTES):
        yield block


def without_end(line: str) -> str:
    """A line without the `\\n` or `\\r\\n` at its end."""
    return line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")
