"""What a decoder remembers of its sources: the encoder's output enters, keys and values for every row leave."""

from copy import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.layers.masks import View


class Memory:
    """What cross-attention looks at: keys and values of the encoder's output, computed once a block.

    Rows of one beam read the same source, which is stored once; who asks for `keys_values` gets a copy for each row.
    """

    def __init__(
        self, keys_values: list[tuple[Tensor, Tensor]], real: Tensor | None, batch: int, m: int
    ) -> None:
        self.stored, self.stored_real = keys_values, real
        self.owner = torch.arange(batch)  # which of the stored sources each row reads
        self.to = torch.arange(m, device=keys_values[0][0].device if keys_values else None)[None]
        self.copies: list[tuple[Tensor, Tensor]] | None = keys_values

    @property
    def keys_values(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of every block for each row (b, g, m, d_k)."""
        if self.copies is None:
            rows = self.owner.to(self.to.device)
            self.copies = [(K[rows], V[rows]) for K, V in self.stored]
        return self.copies

    @property
    def real(self) -> Tensor | None:
        """(b, m) the real tokens of each row's source; None if all are."""
        return None if self.stored_real is None else self.stored_real[self.owner.to(self.to.device)]

    def view(self, at: Tensor) -> View:
        """Every query may look at every real token of the source."""
        return View(at, self.to, real=self.real)

    def select(self, rows: Tensor) -> None:
        """Keeps the memories of these sequences, in this order; copies no source."""
        owner = self.owner[rows.cpu()]
        if not torch.equal(owner, self.owner):
            self.owner, self.copies = owner, None

    def copy(self, rows: Tensor) -> "Memory":
        """The memories of these sequences as one of their own."""
        other = copy(self)
        other.select(rows)
        return other

    def join(self, other: "Memory") -> None:
        """Adds the memories of other sequences; the shorter sources are padded."""
        m = max(self.to.shape[1], other.to.shape[1])

        def pad(X: Tensor) -> Tensor:
            return F.pad(X, (0, 0, 0, m - X.shape[2]))

        ours, theirs = self.used(), other.used()
        self.stored_real = torch.cat(
            [
                F.pad(memory.stored_seen()[rows], (0, m - memory.to.shape[1]))
                for memory, rows in ((self, ours), (other, theirs))
            ]
        )
        self.stored = [
            (torch.cat([pad(K[ours]), pad(their_K[theirs])]), torch.cat([pad(V[ours]), pad(their_V[theirs])]))
            for (K, V), (their_K, their_V) in zip(self.stored, other.stored, strict=True)
        ]
        owners = [
            torch.searchsorted(rows.cpu(), memory.owner) for memory, rows in ((self, ours), (other, theirs))
        ]
        self.owner, self.copies = torch.cat([owners[0], owners[1] + len(ours)]), None
        self.to = torch.arange(m, device=self.to.device)[None]

    def used(self) -> Tensor:
        """The stored sources that some row reads, in order."""
        return self.owner.unique().to(self.to.device)

    def seen(self) -> Tensor:
        """(b, m) the real tokens of each row's source."""
        return self.stored_seen()[self.owner.to(self.to.device)]

    def stored_seen(self) -> Tensor:
        """(stored sources, m) their real tokens."""
        if self.stored_real is not None:
            return self.stored_real
        sources = len(self.stored[0][0]) if self.stored else int(self.owner.max()) + 1
        return torch.ones(sources, self.to.shape[1], dtype=torch.bool, device=self.to.device)
