"""The decoder: a language model. Ids (b, n) become logits for the token after each: (b, n, vocabulary)."""

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError
from clearhead.layers.cache import Cache, DecoderState
from clearhead.layers.masks import View
from clearhead.layers.sites import CachedStep, in_step, site
from clearhead.models.inputs import Inputs, check_counts, check_length, check_same, check_tokens
from clearhead.models.model import Model, State
from clearhead.models.transformer.heads import make_head
from clearhead.models.transformer.stack import Stack, make_table


class Decoder(Model):
    """Embeddings, stacked causal blocks, and a language-model head."""

    takes: tuple[str, ...] = ("documents",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        table = make_table(config.vocabulary, config.d)
        self.decoder = Stack(config, "decoder", table, config.decoder_blocks)
        self.head = make_head(config, table)

    @property
    def generates(self) -> bool:
        """Whether it writes text: with a language head."""
        return self.config.head == "language"

    def vectors(self, inputs: Inputs) -> Tensor:
        """What the head reads: (b, n, d)."""
        self.check(inputs)
        return self.decoder(inputs.tokens, causal_view(inputs.tokens, inputs.documents))

    def check(self, inputs: Inputs) -> None:
        """Rejects inputs that the decoder cannot read."""
        self.check_fields(inputs)
        check_tokens(inputs.tokens, self.config.vocabulary, self.config.d)
        check_counts(inputs.counts, inputs.tokens)
        check_length(inputs.tokens.shape[1], self.config)
        check_same(inputs.documents, inputs.tokens, None, "documents")

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> DecoderState:
        """An empty state for a batch of texts of at most `capacity` tokens each."""
        self.check_fields(Inputs(torch.empty(0), None, source, source_counts))
        return DecoderState(self.empty_cache(batch, capacity))

    def empty_cache(self, batch: int, capacity: int) -> Cache:
        """A cache for this model; rejects sizes that make no sense."""
        if batch < 1 or capacity < 1:
            raise InputError(
                f"A state for {batch} sequences of {capacity} tokens is empty.\nGive at least one of each."
            )
        check_length(capacity, self.config, "capacity")
        if not self.generates:
            raise self.cannot_write()
        return self.decoder.cache(batch, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State, counts: Tensor | None = None, last: bool = False) -> Tensor:
        """Adds tokens (b, n) to the cache and gives their logits: (b, n, vocabulary), or (b, 1, vocabulary)."""
        assert isinstance(state, DecoderState)
        check_tokens(tokens, self.config.vocabulary, self.config.d)
        check_counts(counts, tokens, least=0)
        if len(tokens) != len(state.lengths):
            raise InputError(
                f"There are {len(tokens)} rows of tokens, but the state has {len(state.lengths)} sequences.\n"
                "Give one row for each."
            )
        tokens = tokens.to(self.decoder.tokens.weight.device)
        chunk = state.cache.open(tokens.shape[1], counts)
        rows = torch.arange(len(tokens), device=tokens.device)[:, None]
        counts = chunk.counts.to(tokens.device)[:, None]
        at, real = (
            chunk.at,
            torch.arange(tokens.shape[1], device=tokens.device) < counts,
        )  # (b or 1, n), (b, n)
        with in_step(CachedStep(state.cache, at, real)):
            X = self.decoder(tokens, View(**chunk.view()), chunk=chunk, memory=state.memory)
        chunk.finish()
        if last:
            ends = (counts - 1).clamp(min=0)  # (b, 1)
            X, at, real = X[rows, ends], at.expand(len(X), -1)[rows, ends], real[rows, ends]
        with in_step(CachedStep(state.cache, at, real)):
            return site(self, "logits", self.head(X))


def causal_view(tokens: Tensor, documents: Tensor | None = None) -> View:
    """Every token may look at itself and what is before it; padding on the right is hidden by that alone."""
    at = torch.arange(tokens.shape[1], device=tokens.device)[None]  # (1, n)
    if documents is None:
        return View(at, at, causal=True, aligned=True)
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
    at = at - (at * starts).cummax(1).values  # counted from the start of each document
    numbers = starts.cumsum(1)
    return View(at, at, causal=True, documents=(numbers, numbers), aligned=True)
