"""Keys and values already computed, so that a new token costs the work of one token.

A `Cache` is written in place and grows with its sequences, up to its capacity. Every sequence
has its own length. Slot j holds position j; where a window limits how far tokens look, there are only as many
slots as the window, and position p lies in slot p mod window. A `Chunk` is one step: the new tokens of every
sequence.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import InputError
from clearhead.layers.attention import Dimensions
from clearhead.layers.convolution import latest
from clearhead.layers.memory import Memory

FIRST_SLOTS = 128  # slots reserved at first; more are added when they are needed


class Cache:
    """Keys and values of every block of a decoder, for every sequence of a batch.

    Sequences may leave and join between steps: the first `batch` rows of the store are in use. Sequences of equal
    length that change places copy nothing: `origins` says in which row of the store each slot is, and who asks for `K`
    or `V` has them copied to their places first.
    """

    def __init__(
        self,
        sizes: list[Dimensions],
        batch: int,
        capacity: int,
        window: int | None,
        like: Tensor,
        past: Tensor | None = None,
    ) -> None:
        self.capacity, self.window = capacity, window
        self.past = past  # (b, reach, d) the last vectors before a convolution, where there is one
        self.lengths = torch.zeros(batch, dtype=torch.long)  # on the CPU: they decide shapes
        room = self.room(0)
        self.origins: Tensor | None = None  # (b, slots); slots that are not in it are in their own rows
        self.stored_K = [like.new_zeros(batch, len(size.key_heads), room, size.d_k) for size in sizes]
        self.stored_V = [like.new_zeros(batch, len(size.key_heads), room, size.d_v) for size in sizes]

    @property
    def K(self) -> list[Tensor]:
        """The keys of every block, each sequence in its own row."""
        self.settle()
        return self.stored_K

    @property
    def V(self) -> list[Tensor]:
        """The values of every block, each sequence in its own row."""
        self.settle()
        return self.stored_V

    def settle(self) -> None:
        """Copies what is in other rows of the store to the rows of its sequences."""
        if self.origins is None:
            return
        rows = torch.arange(len(self.origins))
        moved = (self.origins != rows[:, None]).any(1).nonzero()[:, 0]
        origins, slots = self.origins[moved], torch.arange(self.origins.shape[1])
        for X in (*self.stored_K, *self.stored_V):
            new = X[origins.to(X.device), :, slots.to(X.device)]  # (moved, slots, g, d_k)
            X[moved.to(X.device), :, : len(slots)] = new.transpose(1, 2)
        self.origins = None

    @property
    def slots(self) -> int:
        """Slots of each sequence: one for each position, or as many as the window is wide."""
        return self.capacity if self.window is None else min(self.capacity, self.window)

    def room(self, length: int) -> int:
        """Slots to reserve for sequences of this length: a power of two, so that few copies are made."""
        if self.is_ring:
            return self.slots
        return min(self.slots, max(FIRST_SLOTS, 1 << (length - 1).bit_length()))

    @property
    def batch(self) -> int:
        """Sequences in use."""
        return len(self.lengths)

    @property
    def used(self) -> int:
        """Slots in use by the longest sequence."""
        return min(int(self.lengths.max()), self.slots) if self.batch else 0

    @property
    def is_ring(self) -> bool:
        """Whether slots are reused."""
        return self.slots < self.capacity

    @property
    def bytes(self) -> int:
        """Memory of all keys and values."""
        return sum(X.numel() * X.element_size() for X in self.stored_K + self.stored_V)

    @property
    def used_bytes(self) -> int:
        """Memory of the keys and values in use, without what is reserved for later tokens."""
        return sum(
            X[: self.batch, :, : self.used].numel() * X.element_size() for X in self.stored_K + self.stored_V
        )

    def open(self, n: int, counts: Tensor | None = None) -> "Chunk":
        """Opens a step of n tokens a row, of which the first `counts` are real."""
        counts = torch.full_like(self.lengths, n) if counts is None else counts.cpu()
        after = lengths_after(self.lengths, counts, self.capacity)
        self.reserve(self.batch, int(after.max()))
        return Chunk(self, n, counts, after)

    def positions(self, lengths: Tensor) -> Tensor:
        """The position in every slot of a ring: the latest that falls on it; negative if none has yet."""
        last = lengths[:, None] - 1
        return last - (last - torch.arange(self.slots)) % self.slots  # (b, slots)

    def select(self, rows: Tensor) -> None:
        """Keeps these sequences, in this order; one may be kept twice. Rows that stay are not touched."""
        rows, used = rows.cpu(), self.used
        if self.past is None and not self.is_ring and used and bool((self.lengths == used).all()):
            self.refer(rows, used)
            return
        self.settle()
        self.reserve(len(rows), used)
        moved = (rows != torch.arange(len(rows))).nonzero()[:, 0]
        for X in (*self.K, *self.V):
            X[moved.to(X.device), :, :used] = X[rows[moved].to(X.device), :, :used]
        self.lengths = self.lengths[rows]
        self.past = None if self.past is None else self.past[rows.to(self.past.device)]

    def refer(self, rows: Tensor, used: int) -> None:
        """Keeps these sequences of equal length without copying them.

        New tokens are written behind all that is kept, so that they overwrite nothing that another sequence needs.
        """
        own = torch.arange(self.batch)[:, None]
        known = own[:, :0] if self.origins is None else self.origins
        origins = torch.cat([known, own.expand(-1, used - known.shape[1])], 1)[rows]
        self.reserve(len(rows), used)
        self.lengths = self.lengths[rows]
        self.origins = (
            None if torch.equal(origins, torch.arange(len(rows))[:, None].expand_as(origins)) else origins
        )

    def join(self, other: "Cache") -> None:
        """Adds the sequences of another cache to the batch."""
        self.settle()
        batch, used = self.batch, other.used
        self.capacity = max(self.capacity, other.capacity)
        self.reserve(batch + other.batch, max(self.used, used))
        for X, Y in zip((*self.K, *self.V), (*other.K, *other.V), strict=True):
            X[batch : batch + other.batch, :, :used] = Y[: other.batch, :, :used]
        self.lengths = torch.cat([self.lengths, other.lengths])
        if self.past is not None and other.past is not None:
            self.past = torch.cat([self.past, other.past])

    def copy(self, rows: Tensor) -> "Cache":
        """These sequences as a cache of their own."""
        self.settle()
        other, rows = copy(self), rows.cpu()
        other.lengths = self.lengths[rows]
        room = self.room(other.used)
        other.stored_K, other.stored_V = (
            [X[:, :, :room][rows.to(X.device)] for X in store] for store in (self.K, self.V)
        )
        other.past = None if self.past is None else self.past[rows.to(self.past.device)]
        return other

    def reserve(self, batch: int, length: int) -> None:
        """Makes room for so many sequences of so many tokens; existing keys and values stay in their slots.

        Rows are at least doubled, so that sequences that join one by one cause few copies.
        """
        room = self.room(length)
        if self.stored_K and self.stored_K[0].shape[0] >= batch and self.stored_K[0].shape[2] >= room:
            return  # all blocks have the same room
        for store in (self.stored_K, self.stored_V):
            for i, X in enumerate(store):
                if len(X) < batch or X.shape[2] < room:
                    rows = len(X) if len(X) >= batch else max(batch, 2 * len(X))
                    store[i] = X.new_zeros(rows, X.shape[1], max(X.shape[2], room), X.shape[3])
                    store[i][: len(X), :, : X.shape[2]] = X

    def truncate(self, lengths: Tensor) -> None:
        """Forgets the tokens of each sequence from its new length on."""
        self.settle()
        shorter = lengths.cpu() < self.lengths
        if self.past is not None and bool(shorter.any()):
            raise InputError(
                "Of what is before a convolution only the last vectors are kept, so the cache cannot be truncated.\n"
                "Start again with the shorter text."
            )
        if bool((shorter & (self.lengths > self.slots)).any()):
            raise InputError(
                f"A window of {self.slots} positions has overwritten earlier tokens, so the cache cannot be "
                "truncated.\nStart again with the shorter text."
            )
        self.lengths = torch.minimum(self.lengths, lengths.cpu())


def lengths_after(lengths: Tensor, counts: Tensor, capacity: int) -> Tensor:
    """The lengths (b,) of sequences that grow by `counts`, if there is room for that."""
    after = lengths + counts
    if int(after.max()) > capacity:
        row = int(after.argmax())
        raise InputError(
            f"A sequence of {int(lengths[row])} tokens has no room for {int(counts[row])} more: "
            f"the cache's capacity is {capacity}.\nStart with a larger capacity."
        )
    return after


@dataclass
class Chunk:
    """The tokens that one step adds to a cache."""

    cache: Cache
    n: int
    counts: Tensor  # (b,) real tokens of each row
    after: Tensor  # (b,) lengths when the step is done

    def __post_init__(self) -> None:
        before, n = self.cache.lengths, self.n
        self.device = self.cache.K[0].device if self.cache.K else torch.device("cpu")
        self.start = int(before[0])
        self.is_even = bool((before == self.start).all() and (self.counts == n).all())  # all rows alike
        at = torch.arange(n) + (before[:1, None] if self.is_even else before[:, None])
        # Padding may reach past the end; its position does not matter.
        self.at = at.clamp(max=self.cache.capacity - 1).to(self.device)  # (b or 1, n)
        self.joins = (
            self.cache.is_ring and n > 1
        )  # a ring would overwrite what this chunk's first tokens need

    def view(self) -> dict[str, Any]:
        """What the queries of this chunk may look at: fields of a `View`."""
        cache, even, n = self.cache, self.is_even, self.n
        if not cache.is_ring:
            m = int(self.after.max())
            to = torch.arange(m, device=self.device)[None]
            fresh = not bool(cache.lengths.any()) and m == n
            return {"at": self.at, "to": to, "aligned": fresh, "open": even and n == 1}
        to = cache.positions(cache.lengths if self.joins else self.after).to(self.device)
        real = to >= 0
        if self.joins:
            new = torch.arange(n, device=self.device) < self.counts.to(self.device)[:, None]
            to, real = torch.cat([to, self.at.expand(len(to), -1)], 1), torch.cat([real, new], 1)
        is_full = even and n == 1 and self.start >= cache.slots
        return {"at": self.at, "to": to, "real": real, "open": is_full}

    def extend(self, block: int, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """Writes a block's new keys and values; returns all that its queries may look at."""
        batch = self.cache.batch
        old = (self.cache.K[block][:batch], self.cache.V[block][:batch])
        seen = [torch.cat([X, new], 2) for X, new in zip(old, (K, V), strict=True)] if self.joins else None
        for X, new in zip(old, (K, V), strict=True):
            self.write(X, new)
        if seen is not None:
            return seen[0], seen[1]
        m = self.cache.slots if self.cache.is_ring else int(self.after.max())
        return old[0][:, :, :m], old[1][:, :, :m]

    def write(self, X: Tensor, new: Tensor) -> None:
        """Copies new (b, g, n, d_k) into the slots of X, real tokens only."""
        slots, n = self.cache.slots, self.n
        first = self.start % slots
        if self.is_even and first + n <= slots:
            X[:, :, first : first + n] = new
            return
        column = torch.arange(n)
        wanted = (column < self.counts[:, None]) & (column >= self.counts[:, None] - slots)
        rows, columns = (index.to(self.device) for index in wanted.nonzero(as_tuple=True))
        places = (self.cache.lengths.to(self.device)[rows] + columns) % slots
        X[rows, :, places] = new[rows, :, columns]

    def pass_by(self, X: Tensor) -> Tensor | None:
        """The vectors before X (b, n, d) that a convolution sees; those at the end of X are kept for the next chunk."""
        past = self.cache.past
        self.cache.past = None if past is None else latest(past, X, self.counts)
        return past

    def finish(self) -> None:
        """Adds the new tokens to the lengths."""
        self.cache.lengths = self.after


@dataclass(eq=False)
class DecoderState:
    """What a decoder knows of the texts it generates."""

    cache: Cache
    memory: Memory | None = None

    @property
    def lengths(self) -> Tensor:
        """Tokens of each sequence so far: (b,)."""
        return self.cache.lengths

    @property
    def used_bytes(self) -> int:
        """Memory of what is kept of the tokens so far."""
        return self.cache.used_bytes

    def select(self, rows: Tensor) -> None:
        """Keeps these sequences, in this order; one may be kept twice."""
        self.cache.select(rows)
        if self.memory is not None:
            self.memory.select(rows)

    def copy(self, rows: Tensor) -> "DecoderState":
        """These sequences as a state of their own."""
        memory = None if self.memory is None else self.memory.copy(rows)
        return DecoderState(self.cache.copy(rows), memory)

    def join(self, other: "DecoderState") -> None:
        """Adds the sequences of another state to the batch."""
        self.cache.join(other.cache)
        if self.memory is not None and other.memory is not None:
            self.memory.join(other.memory)

    @property
    def can_truncate(self) -> bool:
        """Whether every earlier token is still kept."""
        return not self.cache.is_ring and self.cache.past is None

    def truncate(self, lengths: Tensor) -> None:
        """Forgets the tokens of each sequence from its new length on."""
        self.cache.truncate(lengths)
