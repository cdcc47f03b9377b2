"""Who may look at whom, and the softmax over those who may.

A `View` describes one pass through a stack for all its blocks: the positions of queries and keys, which keys are
real, whether the future is hidden. It becomes a boolean tensor (true = may look) only where a kernel needs
one: an explicit mask over 16k tokens costs more memory than the attention itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Angles = tuple[Tensor, Tensor]
T = TypeVar("T")


class lazily(Generic[T]):
    """A property that is computed once; the standard one has a lock, which `torch.compile` cannot trace."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make, self.name = make, make.__name__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value = instance.__dict__[self.name] = self.make(instance)
        return value


@dataclass(frozen=True)
class View:
    """What attention must know about order and padding."""

    at: Tensor  # (b or 1, n) positions of the queries
    to: Tensor  # (b or 1, m) positions of the keys
    real: Tensor | None = None  # (b, m) keys that exist; all if omitted
    causal: bool = False  # a query sees no later key
    window: int | None = None  # a query sees fewer than this many positions away
    documents: tuple[Tensor, Tensor] | None = None  # (b, n), (b, m): a query sees its own document only
    aligned: bool = False  # the keys are the queries' own tokens, in order
    open: bool = False  # every query may look at every key, whatever the fields above would give
    angles: Angles | None = None  # of rotary positions, at the queries
    bias: Tensor | None = None  # (b or 1, h, n, m) added to the scores

    @property
    def is_open(self) -> bool:
        """Every query may look at every key."""
        hidden = self.real is not None or self.causal or self.window is not None or self.documents is not None
        return self.open or not hidden

    @property
    def is_triangle(self) -> bool:
        """Query i may look at keys 0..i, and nothing else is hidden."""
        return (
            self.aligned
            and self.causal
            and self.real is None
            and self.window is None
            and self.documents is None
        )

    @property
    def is_band(self) -> bool:
        """The window is so narrow that most keys are out of every query's sight."""
        narrow = self.window is not None and self.at.shape[1] > 2 * self.window
        return narrow and self.aligned and self.bias is None

    def bands(self) -> Iterator[tuple[slice, slice, "View"]]:
        """Queries a window at a time, the keys they can see at all, and the view between the two."""
        assert self.window is not None
        n = self.at.shape[1]
        for first in range(0, n, self.window):
            queries = slice(first, min(first + self.window, n))
            beyond = queries.stop if self.causal else min(queries.stop + self.window - 1, n)
            keys = slice(max(0, first - self.window + 1), beyond)
            yield queries, keys, self.part(queries, keys)

    def part(self, queries: slice, keys: slice) -> "View":
        """The view of some queries on some keys, without the angles of positions."""
        view = replace(self, aligned=False, angles=None, at=self.at[:, queries], to=self.to[:, keys])
        if self.real is not None:
            view = replace(view, real=self.real[:, keys])
        if self.documents is not None:
            asking, asked = self.documents
            view = replace(view, documents=(asking[:, queries], asked[:, keys]))
        if self.bias is not None:
            view = replace(view, bias=self.bias[:, :, queries, keys])
        return view

    @lazily
    def mask(self) -> Tensor:
        """True where a query may look: (b or 1, 1, n, m)."""
        gap = self.at[:, :, None] - self.to[:, None, :]  # (b, n, m)
        M = torch.ones_like(gap, dtype=torch.bool)
        if self.open:
            return M[:, None]
        if self.causal:
            M &= gap >= 0
        if self.window is not None:
            M &= gap.abs() < self.window
        if self.real is not None:
            M = M & self.real[:, None, :]
        if self.documents is not None:
            M = M & (self.documents[0][:, :, None] == self.documents[1][:, None, :])
        return M[:, None]  # (b, 1, n, m)

    @lazily
    def biased_mask(self) -> Tensor:
        """The bias, and −∞ where a query may not look: (b or 1, h, n, m)."""
        assert self.bias is not None
        return self.bias if self.is_open else self.bias.masked_fill(~self.mask, -torch.inf)


def masked_softmax(S: Tensor, M: Tensor, sees_itself: bool = False) -> Tensor:
    """exp(S) over the visible keys, divided by their sum; a row that may look nowhere is all zeros.

    If every query `sees_itself`, there is no such row to look for.
    """
    A = torch.softmax(S.masked_fill(~M, -torch.inf), dim=-1)
    return A if sees_itself else A.masked_fill(~M.any(-1, keepdim=True), 0.0)


def real_tokens(counts: Tensor | None, n: int) -> Tensor | None:
    """(b, n) true for the first `counts` tokens of each row; None when nothing is padded."""
    if counts is None:
        return None
    return torch.arange(n, device=counts.device) < counts[:, None]


def document_starts(documents: Tensor) -> Tensor:
    """(b, n) true where a document begins, from the number of each token's document."""
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return starts


def each_document(X: Tensor, documents: Tensor | None, read: Callable[[Tensor], Tensor]) -> Tensor:
    """Reads each document packed into the rows of X (b, n, d) as a row of its own: (b, n, d).

    For what has no mask to keep them apart; padding is on the right, where a causal reader does not look.
    """
    if documents is None:
        return read(X)
    starts = document_starts(documents).flatten()
    number = starts.cumsum(0) - 1  # (b · n,)
    first = starts.nonzero()[:, 0]
    place = torch.arange(len(starts), device=X.device) - first[number]
    rows = X.new_zeros(len(first), int(place.max()) + 1, X.shape[2])
    rows = rows.index_put((number, place), X.flatten(0, 1))
    return read(rows)[number, place].unflatten(0, X.shape[:2])
