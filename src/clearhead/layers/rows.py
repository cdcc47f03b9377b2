"""What a model without attention knows of the texts it generates: a few vectors for each, however long it is."""

from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.layers.cache import lengths_after
from clearhead.layers.memory import Memory


@dataclass(eq=False)
class RowState:
    """Tensors (b, …) with a row for each text: states of a recurrence, or the last vectors under a filter.

    It cannot be truncated: what came before is not kept.
    """

    tensors: list[Tensor]
    lengths: Tensor  # (b,) on the CPU, as those of a cache
    capacity: int
    memory: Memory | None = None  # of the source, for a decoder that looks back at it

    @property
    def used_bytes(self) -> int:
        """Memory of all tensors: the same after every token."""
        return sum(X.numel() * X.element_size() for X in self.tensors)

    def room_for(self, tokens: Tensor, counts: Tensor | None) -> Tensor:
        """How many tokens (b,) of each row are new: all of tokens (b, n) if no counts are given; there must be room."""
        counts = torch.full_like(self.lengths, tokens.shape[1]) if counts is None else counts.cpu()
        lengths_after(self.lengths, counts, self.capacity)
        return counts

    def grow(self, tensors: list[Tensor], counts: Tensor) -> None:
        """Replaces the tensors by those after `counts` (b,) more tokens."""
        self.tensors, self.lengths = tensors, self.lengths + counts

    def select(self, rows: Tensor) -> None:
        """Keeps these texts, in this order; one may be kept twice."""
        self.tensors = [X[rows.to(X.device)] for X in self.tensors]
        self.lengths = self.lengths[rows.cpu()]
        if self.memory is not None:
            self.memory.select(rows)

    def copy(self, rows: Tensor) -> "RowState":
        """These texts as a state of their own."""
        memory = None if self.memory is None else self.memory.copy(rows)
        return RowState(
            [X[rows.to(X.device)] for X in self.tensors], self.lengths[rows.cpu()], self.capacity, memory
        )

    def join(self, other: "RowState") -> None:
        """Adds the texts of another state."""
        self.tensors = [torch.cat(pair) for pair in zip(self.tensors, other.tensors, strict=True)]
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.capacity = max(self.capacity, other.capacity)
        if self.memory is not None and other.memory is not None:
            self.memory.join(other.memory)
