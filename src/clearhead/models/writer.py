"""What every causal model does alike: checks at its border, `start` and `step`; a family says how a state grows.

`RowWriter` is for families without a mask: they keep packed documents apart by reading each as a row of its own.
"""

from typing import Generic, TypeVar

import torch
from torch import Tensor

from clearhead.errors import InputError
from clearhead.layers.masks import each_document
from clearhead.layers.rows import RowState
from clearhead.layers.sites import CachedStep, in_step, site
from clearhead.models.inputs import Inputs, check_counts, check_length, check_same, check_tokens
from clearhead.models.model import Model, State
from clearhead.models.stack import Stack

S = TypeVar("S", bound=State)


class Writer(Model, Generic[S]):
    """A model that reads from left to right, and generates if it has a language head."""

    takes: tuple[str, ...] = ("documents",)

    @property
    def generates(self) -> bool:
        """Whether it writes text: with a language head."""
        return self.config.head == "language"

    def check(self, inputs: Inputs) -> None:
        """Rejects inputs that the decoder cannot read."""
        super().check(inputs)
        check_same(inputs.documents, inputs.tokens, None, "documents")

    def encode_source(self, source: Tensor | None, counts: Tensor | None, batch: int) -> Tensor:
        """A translator's source, encoded; there must be one for each target: (b, m, d)."""
        assert source is not None  # the border has checked it
        X = self.encode(source, counts)
        self.check_pairs(len(X), batch)
        return X

    def check_pairs(self, sources: int, targets: int) -> None:
        """Rejects sources that are more or fewer than the targets."""
        if sources != targets:
            raise InputError(
                f"There are {sources} sources for {targets} targets.\nGive one source for each row of the batch."
            )

    def check_source(self, tokens: Tensor, counts: Tensor | None) -> None:
        """Rejects a source that a translator's encoder cannot read."""
        check_tokens(tokens, self.config.vocabulary_encoder, self.config.width_encoder, "source")
        check_counts(counts, tokens, what="source_counts")
        check_length(tokens.shape[1], self.config, "source")

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> S:
        """An empty state for a batch of texts of at most `capacity` tokens each."""
        self.check_start(batch, capacity, source, source_counts)
        return self.new_state(batch, capacity, source, source_counts)

    def check_start(
        self, batch: int, capacity: int, source: Tensor | None, source_counts: Tensor | None
    ) -> None:
        """Rejects a state that cannot be."""
        self.check_fields(Inputs(torch.empty(0), None, source, source_counts))
        if batch < 1 or capacity < 1:
            raise InputError(
                f"A state for {batch} sequences of {capacity} tokens is empty.\nGive at least one of each."
            )
        check_length(capacity, self.config, "capacity")
        if not self.generates:
            raise self.cannot_write()

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State, counts: Tensor | None = None, last: bool = False) -> Tensor:
        """Adds tokens (b, n) to the state and gives their logits: (b, n, vocabulary), or (b, 1, vocabulary)."""
        check_tokens(tokens, self.config.vocabulary, self.config.d)
        check_counts(counts, tokens, least=0)
        if len(tokens) != len(state.lengths):
            raise InputError(
                f"There are {len(tokens)} rows of tokens, but the state has {len(state.lengths)} sequences.\n"
                "Give one row for each."
            )
        tokens = tokens.to(next(self.parameters()).device)
        b, n = tokens.shape[:2]
        column, ends = (
            torch.arange(n, device=tokens.device),
            torch.full((b,), n) if counts is None else counts,
        )
        ends = ends.to(tokens.device)[:, None]  # (b, 1)
        at, real = state.lengths.to(tokens.device)[:, None] + column, column < ends  # (b, n)
        with in_step(CachedStep(state, at, real)):
            X = self.extend(tokens, state, counts)
        if last:
            rows, last_ones = torch.arange(b, device=X.device)[:, None], (ends - 1).clamp(min=0)
            X, at, real = X[rows, last_ones], at[rows, last_ones], real[rows, last_ones]
        with in_step(CachedStep(state, at, real)):
            return site(self, "logits", self.head(X))

    def new_state(self, batch: int, capacity: int, source: Tensor | None, source_counts: Tensor | None) -> S:
        """An empty state; the sizes make sense."""
        raise NotImplementedError

    def extend(self, tokens: Tensor, state: State, counts: Tensor | None) -> Tensor:
        """Adds tokens (b, n), of which the first `counts` are real, to the state; their vectors (b, n, d)."""
        raise NotImplementedError


class RowWriter(Writer[RowState]):
    """A writer whose stack, called with vectors (b, n, d), gives vectors (b, n, d) and the state after them."""

    decoder: Stack

    def vectors(self, inputs: Inputs) -> Tensor:
        """What the head reads: (b, n, d)."""
        self.check(inputs)
        return each_document(
            self.decoder.embed(inputs.tokens), inputs.documents, lambda X: self.decoder(X)[0]
        )
