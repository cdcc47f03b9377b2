"""Which examples make up which batch: (seed, epoch, step) -> example indices.

A plan is a pure function: nothing is drawn, so any step of any epoch can be asked for at any time, on any
rank. `Even` gives batches of equally many examples, for examples of one length. `Bucketed` gives batches of
about equally many tokens, of examples of like length, for examples that have to be padded.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clearhead.data.order import Integers, Order, draws

Lengths = NDArray[np.int64]  # (examples, columns)

POOL = 65_536  # examples sorted by length together: large enough for little padding, small in memory
STRAY = 0.1  # of the examples count as a token longer, so that the same ones do not always meet in small data


class BatchPlan(Protocol):
    """What makes up each batch."""

    def count(self, epoch: int) -> int:
        """How many batches this epoch has."""
        ...

    def has(self, epoch: int, step: int) -> bool:
        """Whether this epoch has such a step; may be known long before the count is."""
        ...

    def examples(self, epoch: int, step: int) -> Integers:
        """The examples of one batch, over all ranks."""
        ...


@dataclass(frozen=True)
class Even:
    """Batches of `rows` examples; the last of an epoch has what is left."""

    size: int
    rows: int
    seed: int
    shuffle: bool = True

    def count(self, epoch: int) -> int:
        """How many batches this epoch has."""
        return -(-self.size // self.rows)

    def has(self, epoch: int, step: int) -> bool:
        """Whether this epoch has such a step."""
        return step < self.count(epoch)

    def examples(self, epoch: int, step: int) -> Integers:
        """The examples of one batch, over all ranks."""
        first = step * self.rows
        places = np.arange(first, min(first + self.rows, self.size))
        return Order(self.seed, epoch, self.size).at(places) if self.shuffle else places


@dataclass
class Bucketed:
    """Batches of at most `budget` tokens, padding included, and at least one example.

    The shuffled examples are taken in pools; inside a pool they are sorted by length, cut into batches, and
    the batches shuffled. `lengths` gives the tokens of each column for any examples.
    """

    lengths: Callable[[Integers], Lengths]
    size: int
    budget: int
    seed: int
    shuffle: bool = True
    pool: int = POOL
    _ends: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False)
    _latest: tuple[tuple[int, int], list[Integers]] | None = field(default=None, init=False, repr=False)

    @cached_property
    def _pools(self) -> int:
        return -(-self.size // self.pool)

    def count(self, epoch: int) -> int:
        """How many batches this epoch has."""
        return self._until(epoch, self._pools)[-1]

    def has(self, epoch: int, step: int) -> bool:
        """Whether this epoch has such a step; looks at no pool behind it."""
        return step < self._reach(epoch, step)[-1]

    def examples(self, epoch: int, step: int) -> Integers:
        """The examples of one batch, over all ranks."""
        ends = self._reach(epoch, step)
        assert step < ends[-1], "step outside the epoch"
        pool = bisect_right(ends, step) - 1
        return self._batches(epoch, pool)[step - ends[pool]]

    def _reach(self, epoch: int, step: int) -> list[int]:
        ends = self._until(epoch, 1)
        while ends[-1] <= step and len(ends) <= self._pools:
            ends = self._until(epoch, len(ends))
        return ends

    def _until(self, epoch: int, pools: int) -> list[int]:
        """How many batches lie before each pool, up to the first `pools` pools; kept for epochs near by."""
        ends = list(self._ends.get(epoch, [0]))
        for pool in range(len(ends) - 1, pools):
            ends.append(ends[-1] + len(self._batches(epoch, pool)))
        near = {other: known for other, known in self._ends.items() if abs(other - epoch) == 1}
        self._ends = near | {epoch: ends}
        return ends

    def _batches(self, epoch: int, pool: int) -> list[Integers]:
        latest = self._latest  # read once: another thread may be asking too
        if latest is None or latest[0] != (epoch, pool):
            self._latest = latest = ((epoch, pool), self._cut(epoch, pool))
        return latest[1]

    def _cut(self, epoch: int, pool: int) -> list[Integers]:
        first = pool * self.pool
        examples = np.arange(first, min(first + self.pool, self.size))
        if not self.shuffle:
            return self._sorted(examples, 0)
        examples = Order(self.seed, epoch, self.size).at(examples)
        strayed = draws(self.seed, epoch, "strays", examples, 0) < STRAY
        batches = self._sorted(examples, strayed.astype(np.int64))
        order = Order(self.seed, epoch, len(batches), f"batches of pool {pool}")
        return [batches[index] for index in order.at(np.arange(len(batches)))]

    def _sorted(self, examples: Integers, extra: Integers | int) -> list[Integers]:
        lengths = self.lengths(examples)
        near = by_length(lengths, extra)
        return np.split(examples[near], cuts(lengths[near], self.budget))


def by_length(lengths: Lengths, extra: Integers | int = 0) -> Integers:
    """The order in which neighbours are alike: by the longer side, then back and forth along the other.

    With two columns, sorting by one leaves the other ragged. Examples whose longer side is equal differ
    only in how much shorter the other is, and walking that range forwards and backwards in turn leaves no
    jump between groups. `extra` is added to the longer side of each, for this order only.
    """
    longest = lengths.max(axis=1) + extra
    difference = lengths[:, -1] - lengths[:, 0]
    return np.lexsort((np.where(longest % 2 == 0, difference, -difference), longest))


def cuts(lengths: Lengths, budget: int) -> list[int]:
    """Where to split, so that each batch has as many rows as fit into the budget, padding included."""
    places: list[int] = []
    start = 0
    while True:
        rows = max(1, budget // max(1, int(lengths[start].sum())))
        widths = np.maximum.accumulate(lengths[start : start + rows], axis=0).sum(axis=1)
        start += max(1, int(np.searchsorted(widths * np.arange(1, len(widths) + 1), budget, side="right")))
        if start >= len(lengths):
            return places
        places.append(start)
