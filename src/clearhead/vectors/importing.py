"""Files of word vectors from elsewhere: a file of word2vec (text or binary) or GloVe enters, a table of vectors leaves.

    word2vec, text     "400000 300", then a word and its numbers per line
    word2vec, binary   the same first line, then each word, a space, and its numbers as float32
    GloVe              no first line; a word may contain spaces

Nothing is believed: memory grows with what is read, not with what the first line promises, and a damaged file is
refused with the number of its line or record.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.config.vectors import MOST_WORDS, WIDEST_VECTOR
from clearhead.errors import DataError
from clearhead.text.sources.lines import DAMAGE, File
from clearhead.vector_folder import VectorTable
from clearhead.vectors.files import file_at, lines_of

Row = tuple[int, str, NDArray[np.float32]]  # line or record, word, vector

HEADER = re.compile(rb"\s*(\d{1,12})[ \t]+(\d{1,12})\s*")
SAMPLE = 1 << 20  # bytes from which the format is found: more than the longest possible line of text
LONGEST_WORD = 4096  # bytes
BLOCK = 1 << 20


@dataclass
class Imported:
    """The vectors of a file, its format, and how many words occurred twice, of which the first counts."""

    format: str
    rows: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    repeated: int = 0

    def table(self, name: str) -> VectorTable:
        """The words and vectors as a table."""
        E = torch.from_numpy(np.stack(list(self.rows.values())))
        return VectorTable(list(self.rows), E, None, {"by": "import", "source": name, "format": self.format})


def import_vectors(path: str | Path, vocabulary: int | None = None) -> Imported:
    """Reads a file of vectors, or the first words of it; the words are taken to be the most frequent first."""
    file = file_at(path)
    sample = first_bytes(file)
    first, _, rest = sample.partition(b"\n")
    header = HEADER.fullmatch(first)
    if header is None:
        imported, rows = Imported("GloVe"), text_rows(path, width_of(path, first), None)
    else:
        count, width = int(header[1]), int(header[2])
        check_header(path, count, width)
        if is_text(rest, width):
            imported, rows = Imported("word2vec text"), text_rows(path, width, count)
        else:
            imported, rows = Imported("word2vec binary"), binary_rows(file, width, count)
    kind = "record" if imported.format == "word2vec binary" else "line"
    for number, word, vector in rows:
        if not word or not np.isfinite(vector).all():
            what = f"the vector of {word[:80]!r} is not finite" if word else "there is no word"
            raise DataError(f"{path}, {kind} {number}: {what}.\nThe file is damaged; download it again.")
        if word in imported.rows:
            imported.repeated += 1
            continue
        imported.rows[word] = vector
        if len(imported.rows) == (vocabulary or MOST_WORDS):
            break
    if not imported.rows:
        raise DataError(f"{path} contains no vectors.\nGive a file of word2vec or GloVe.")
    return imported


def first_bytes(file: File) -> bytes:
    """The beginning of a file."""
    try:
        with file.open() as stream:
            return stream.read(SAMPLE)
    except DAMAGE as error:
        raise DataError(f"{file.name} is damaged: {error}.\nDownload it again.") from None


def check_header(path: str | Path, count: int, width: int) -> None:
    """Rejects a first line that no real file has."""
    if not 0 < count <= MOST_WORDS or not 0 < width <= WIDEST_VECTOR:
        raise DataError(
            f"{path}, line 1: {count:,} vectors of {width:,} numbers.\n"
            f"Is this a file of word vectors? At most {MOST_WORDS:,} of {WIDEST_VECTOR:,} numbers are read."
        )


def width_of(path: str | Path, line: bytes) -> int:
    """How many numbers the first line of a GloVe file has after its word."""
    width = len(line.split()) - 1
    if not 0 < width <= WIDEST_VECTOR or not is_text(line + b"\n", width):
        raise DataError(
            f"{path}, line 1: neither a word with up to {WIDEST_VECTOR:,} numbers (GloVe) nor two numbers (word2vec).\n"
            "Give a file of word2vec or GloVe vectors, text or binary, gzipped or not."
        )
    return width


def is_text(rest: bytes, width: int) -> bool:
    """Whether the first vector is written as text."""
    try:
        numbers = rest.partition(b"\n")[0].decode().split()[-width:]
        return len([float(number) for number in numbers]) == width
    except ValueError:  # bytes that are not UTF-8, too
        return False


def text_rows(path: str | Path, width: int, count: int | None) -> Iterator[Row]:
    """The rows of a text file; with `count`, the first line is not one of them."""
    rows = 0
    for number, line in lines_of(path):
        if count is not None and number == 1:
            continue
        parts = line.rstrip().rsplit(" ", width)
        parts = (
            parts if len(parts) == width + 1 else line.rstrip().rsplit(None, width)
        )  # tabs, several spaces
        if len(parts) != width + 1:
            raise DataError(
                f"{path}, line {number}: a word and {width} numbers are expected, but there are {len(parts)} parts.\n"
                "The file is damaged or truncated; download it again."
            )
        try:
            vector = np.array(parts[1:], dtype=np.float32)
        except ValueError as error:
            raise DataError(
                f"{path}, line {number}: {error}.\nThe file is damaged; download it again."
            ) from None
        rows += 1
        yield number, parts[0], vector
    check_count(path, rows, count)


def binary_rows(file: File, width: int, count: int) -> Iterator[Row]:
    """The rows of a binary file of word2vec."""
    size, rows = 4 * width, 0
    with file.open() as stream:
        stream.readline(SAMPLE)
        held, at = b"", 0
        blocks = iter(lambda: stream.read(BLOCK), b"")
        try:
            for block in chain(blocks, [b""]):
                held, at = held[at:] + block, 0
                while (space := held.find(b" ", at)) >= 0 and len(held) > space + size and rows < count:
                    rows += 1
                    yield (
                        rows,
                        word_in(file, held[at:space], rows),
                        np.frombuffer(held, "<f4", width, space + 1),
                    )
                    at = space + 1 + size
                if space < 0 and len(held) - at > LONGEST_WORD:
                    word_in(file, held[at:], rows + 1)
        except DAMAGE as error:
            raise DataError(
                f"{file.name}, record {rows + 1}: the file is damaged from here on ({error})."
            ) from None
    check_count(file.name, rows, count)
    if held[at:].strip():
        raise DataError(
            f"{file.name} contains more than the {count:,} vectors that line 1 announces.\n"
            "The file is damaged; download it again."
        )


def word_in(file: File, spelled: bytes, number: int) -> str:
    """The word of a binary record."""
    try:
        if len(spelled) <= LONGEST_WORD:
            return spelled.lstrip(b"\n").decode()
    except UnicodeDecodeError:
        pass
    raise DataError(
        f"{file.name}, record {number}: there is no word where one is expected.\n"
        "The file is damaged, or its vectors are of another width than line 1 says."
    )


def check_count(path: str | Path, rows: int, count: int | None) -> None:
    """Rejects a file that has not the number of vectors it announces."""
    if count is not None and rows != count:
        raise DataError(
            f"{path} has {rows:,} vectors, but its first line announces {count:,}.\n"
            "The file is damaged or truncated; download it again."
        )
