"""What is known of the beginnings of earlier prompts: keys and values enter, and leave for prompts that begin alike.

Only whole chunks are reused, so that a prompt is read at the same borders with and without a known prefix, and each
chunk by the same products: its keys and values have the same bits. Prompts share a prefix only under the same salt:
nobody learns from the time of an answer what somebody else has asked.

All chunks have the same size and lie in one store, which is reserved once: whatever is asked for, memory grows up to
its end and no further.
"""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import TypeGuard

import torch
from torch import Tensor

from clearhead.layers.cache import Cache, DecoderState

MOST_BYTES = 256 << 20


class Prefixes:
    """Keeps the latest chunks of prompts, up to a number of bytes."""

    def __init__(self, chunk: int, most_bytes: int = MOST_BYTES) -> None:
        self.chunk, self.most_bytes = chunk, most_bytes
        self._rows: OrderedDict[bytes, int] = OrderedDict()  # of each chunk in the store, the latest last
        self._store: Tensor | None = None  # (chunks, numbers of a chunk)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def used_bytes(self) -> int:
        """Memory of the chunks that are kept."""
        return 0 if self._store is None else len(self) * self._store[0].nbytes

    def find(self, salt: bytes, prompt: Sequence[int]) -> list[bytes]:
        """The names of the chunks that are known of the beginning of a prompt; at least one token stays to be read."""
        known = list(takewhile(self._rows.__contains__, self.names(salt, prompt[:-1])))
        self.touch(known)
        return known

    def fill(self, state: object, known: Sequence[bytes]) -> int:
        """Puts chunks into an empty state of the same model: how many tokens."""
        length = len(known) * self.chunk
        if known and can_keep(state):
            state.cache.reserve(1, length)
            for number, name in enumerate(known):
                for own, kept in self.pairs(state.cache, 0, number, self._rows[name]):
                    own.copy_(kept)
            state.cache.lengths = torch.tensor([length])
        return length

    def keep(self, salt: bytes, prompt: Sequence[int], state: object, row: int) -> None:
        """Remembers the whole chunks of a prompt from its row of a state."""
        if not can_keep(state) or len(prompt) < self.chunk:
            return
        most = self.reserve(state.cache)
        names = list(islice(self.names(salt, prompt), most))
        self.touch([name for name in names if name in self._rows])
        for number, name in enumerate(names):
            if name in self._rows:
                continue
            is_full = len(self) == most
            self._rows[name] = self._rows.popitem(last=False)[1] if is_full else len(self)
            for own, kept in self.pairs(state.cache, row, number, self._rows[name]):
                kept.copy_(own)
        self.touch(names)

    def touch(self, names: Sequence[bytes]) -> None:
        """Makes chunks the latest; a chunk is of no use without those before it, which are forgotten after it."""
        for name in reversed(names):
            self._rows.move_to_end(name)

    def names(self, salt: bytes, prompt: Sequence[int]) -> Iterator[bytes]:
        """A name for each whole chunk of a prompt, which depends on all that comes before it."""
        name = hashlib.blake2b(salt, digest_size=32).digest()
        for start in range(0, len(prompt) - self.chunk + 1, self.chunk):
            ids = array("q", prompt[start : start + self.chunk]).tobytes()
            name = hashlib.blake2b(name + ids, digest_size=32).digest()
            yield name

    def reserve(self, cache: Cache) -> int:
        """Reserves the store for keys and values like these, of which untouched pages cost nothing: how many chunks."""
        if self._store is None:
            like, size = cache.K[0], sum(X[0, :, :1].numel() for X in (*cache.K, *cache.V)) * self.chunk
            self._store = like.new_empty(self.most_bytes // (size * like.element_size()), size)
        return len(self._store)

    def pairs(self, cache: Cache, row: int, number: int, kept: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The slots of a chunk in a row of a cache, and its numbers in a row of the store, for each block's K and V."""
        assert self._store is not None
        start, at = number * self.chunk, 0
        for X in (*cache.K, *cache.V):
            own = X[row, :, start : start + self.chunk]  # (g, chunk, d_k)
            yield own, self._store[kept, at : at + own.numel()].view(own.shape)
            at += own.numel()


def can_keep(state: object) -> TypeGuard[DecoderState]:
    """Whether a state has keys and values that can be truncated, and that depend on the prompt alone."""
    if not isinstance(state, DecoderState) or state.memory is not None:
        return False
    return state.can_truncate and any(X.numel() for X in state.cache.K)
