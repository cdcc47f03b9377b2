"""Token ids on disk or in memory, read by example or as one long stream.

A column is one side of the examples (the text, the source, the target). It is stored in pieces, one a shard,
which are read as if they were joined: example indices, or starts and counts in the joined stream, enter;
token ids leave. Only what is asked for is touched, so a column may be far larger than memory.
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clearhead.data.order import Integers

Ids = NDArray[np.integer]
Claims = NDArray[np.bool_]

KEPT_PIECES = 4  # a column of no more stays in memory as it is read


@dataclass(frozen=True)
class TokenColumn:
    """The ids of each piece, and its borders: example i of a piece is ids[borders[i] : borders[i + 1]]."""

    pieces: tuple[Ids, ...]
    borders: tuple[Integers, ...]

    @classmethod
    def of(cls, examples: Sequence[ArrayLike]) -> "TokenColumn":
        """A column in memory, from a list of lists of ids."""
        arrays = [np.asarray(example, dtype=np.int64) for example in examples]
        borders = np.cumsum([0, *(len(array) for array in arrays)])
        return cls((np.concatenate([np.empty(0, np.int64), *arrays]),), (borders,))

    @cached_property
    def _examples(self) -> Integers:
        """How many examples come before each piece, and in all."""
        return np.cumsum([0, *(len(borders) - 1 for borders in self.borders)])

    @cached_property
    def _tokens(self) -> Integers:
        """How many tokens come before each piece, and in all."""
        return np.cumsum([0, *(len(piece) for piece in self.pieces)])

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return int(self._examples[-1])

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return int(self._tokens[-1])

    def spans(self, examples: Integers) -> tuple[Integers, Integers]:
        """Where each example starts in the joined stream, and how many tokens it has."""
        starts, counts = np.empty_like(examples), np.empty_like(examples)
        for piece, here, local in by_piece(self._examples, examples):
            borders = self.borders[piece]
            starts[here] = borders[local] + self._tokens[piece]
            counts[here] = borders[local + 1] - borders[local]
        return starts, counts

    def lengths(self, examples: Integers) -> Integers:
        """How many tokens each example has."""
        return self.spans(examples)[1]

    def gather(self, examples: Integers) -> tuple[Integers, Integers]:
        """The ids of some examples one after the other, and how many each has."""
        starts, counts = self.spans(examples)
        return self.take(starts, counts), counts

    def take(self, starts: Integers, counts: Integers) -> Integers:
        """The ids of some stretches of the joined stream, one after the other; a stretch may cross pieces."""
        before = np.cumsum(counts) - counts
        at = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
        ids = np.empty(len(at), np.int64)
        for piece, here, local in by_piece(self._tokens, at):
            ids[here] = self.pieces[piece][local]
            if len(self.pieces) > KEPT_PIECES:
                release(self.pieces[piece])
        return ids


def release(piece: Ids) -> None:
    """Gives the memory of a mapped piece back, so that what was read of a large corpus does not pile up.

    The system keeps the file's pages as long as it has room for them, so that reading them again is fast.
    """
    mapped = getattr(piece, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def by_piece(borders: Integers, places: Integers) -> Iterator[tuple[int, Claims, Integers]]:
    """For each piece that some places fall into: its number, which of them do, and where in it they are."""
    pieces = np.searchsorted(borders, places, side="right") - 1
    for piece in np.unique(pieces):
        here = pieces == piece
        yield int(piece), here, places[here] - borders[piece]


def pad(ids: Integers, counts: Integers, padding: int) -> Integers:
    """Rows of different length side by side, filled up on the right: (b, n)."""
    table = np.full((len(counts), int(counts.max(initial=0))), padding, np.int64)
    table[np.arange(table.shape[1]) < counts[:, None]] = ids
    return table
