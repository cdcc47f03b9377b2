"""Which example comes when: (seed, epoch, position) -> index; random numbers fixed by where they are used.

A position enters, an index leaves; no list of the order is ever made. The permutation is a Feistel network
over the two digits of a number (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002): each round
adds a keyed hash of one digit to the other, which can be undone whatever the hash is, so no two positions
share an index. What lands outside the size is sent through again until it lands inside.

The order is the same on every machine, for every number of ranks and workers, and any position is reached
at once.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

ROUNDS = 8  # even, so that the digits end where they began


@dataclass(frozen=True)
class Order:
    """A random order of `size` things; `purpose` keeps apart the orders that one epoch needs."""

    seed: int
    epoch: int
    size: int
    purpose: str = "examples"

    def at(self, positions: ArrayLike) -> Integers:
        """The indices of the things that come at these positions."""
        places = np.atleast_1d(np.asarray(positions, dtype=np.int64))
        assert places.size == 0 or 0 <= places.min() <= places.max() < self.size, "position outside the order"
        indices = self._shuffle(places.astype(np.uint64))
        while (outside := indices >= self.size).any():
            indices[outside] = self._shuffle(indices[outside])
        return indices.astype(np.int64)

    @cached_property
    def _keys(self) -> Words:
        return keys(self.seed, self.epoch, f"order of {self.size} {self.purpose}", ROUNDS)

    @cached_property
    def _bases(self) -> tuple[np.uint64, np.uint64]:
        high = isqrt(max(self.size - 1, 0)) + 1
        return np.uint64(high), np.uint64(-(-self.size // high))

    def _shuffle(self, numbers: Words) -> Words:
        """A permutation of the numbers below the product of the bases, which is little more than the size."""
        high, low = self._bases
        left, right = numbers // low, numbers % low
        for key in self._keys:
            left, right = right, (left + scramble(right + key) % high) % high
            high, low = low, high
        return left * low + right


def keys(seed: int, epoch: int, purpose: str, count: int) -> Words:
    """As many 64-bit keys as asked for, different for every seed, epoch and purpose."""
    digest = blake2b(f"{seed}/{epoch}/{purpose}".encode(), digest_size=8 * count).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)


def draws(seed: int, epoch: int, purpose: str, examples: ArrayLike, places: ArrayLike) -> NDArray[np.float64]:
    """A number in [0, 1) for each (example, place), the same whenever and wherever it is asked for."""
    first, second = keys(seed, epoch, purpose, 2)
    rows = scramble(np.atleast_1d(examples).astype(np.uint64) + first)
    bits = scramble(rows ^ scramble(np.atleast_1d(places).astype(np.uint64) + second))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def scramble(words: Words) -> Words:
    """Mixes the bits of each word (the finaliser of SplitMix64; Steele, Lea and Flood, 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
