"""The decoder: a language model. Ids (b, n) become logits for the token after each: (b, n, vocabulary)."""

import torch
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError
from clearhead.layers.cache import Cache, State
from clearhead.layers.masks import View
from clearhead.layers.sites import site
from clearhead.models.heads import make_head
from clearhead.models.inputs import check_counts, check_length, check_same, check_tokens
from clearhead.models.stack import Stack, make_table


class Decoder(nn.Module):
    """Embeddings, stacked causal blocks, and a language-model head."""

    sites = ("logits",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.decoder = Stack(
            config, "decoder", make_table(config.vocabulary, config.d), config.decoder_blocks
        )
        self.head = make_head(config, self.decoder.tokens)

    def forward(
        self, tokens: Tensor, counts: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """Logits (b, n, vocabulary), or (b, classes) of a classifier.

        `counts` (b,) are the real tokens of each row, the rest is padding. `documents` (b, n) numbers the
        documents packed into a row: each is then read by itself.
        """
        return site(self, "logits", self.head(self.vectors(tokens, counts, documents), counts))

    def vectors(
        self, tokens: Tensor, counts: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        """What the head reads: (b, n, d)."""
        self.check(tokens, counts)
        check_same(documents, tokens, None, "documents")
        return self.decoder(tokens, causal_view(tokens, documents))

    def check(self, tokens: Tensor, counts: Tensor | None) -> None:
        """Refuses what the decoder cannot read."""
        check_tokens(tokens, self.config.vocabulary, self.config.d)
        check_counts(counts, tokens)
        check_length(tokens.shape[1], self.config.context)

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> State:
        """An empty state for a batch of texts of at most `capacity` tokens each."""
        if source is not None:
            raise InputError(
                "A decoder has no encoder to read a source with.\nPut the source into the prompt."
            )
        return State(self.empty_cache(batch, capacity))

    def empty_cache(self, batch: int, capacity: int) -> Cache:
        """A cache for this model, refused where it could not be filled."""
        if batch < 1 or capacity < 1:
            raise InputError(
                f"A state for {batch} sequences of {capacity} tokens cannot be filled.\n"
                "Give at least one of each."
            )
        check_length(capacity, self.config.context, "capacity")
        if self.config.head != "language":
            raise InputError(
                f"A model with head = '{self.config.head}' cannot write text.\nUse a language model."
            )
        return self.decoder.cache(batch, capacity)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State, counts: Tensor | None = None, last: bool = False) -> Tensor:
        """Adds tokens (b, n) to the state and gives their logits (b, n, vocabulary).

        `counts` (b,) says how many tokens of each row are real; a row may have none. With `last` only each
        row's last real token is read out: (b, 1, vocabulary).
        """
        check_tokens(tokens, self.config.vocabulary, self.config.d)
        check_counts(counts, tokens, least=0)
        if len(tokens) != len(state.lengths):
            raise InputError(
                f"There are {len(tokens)} rows of tokens, but the state holds {len(state.lengths)} sequences.\n"
                "Give one row for each."
            )
        tokens = tokens.to(self.decoder.tokens.weight.device)
        chunk = state.cache.begin(tokens.shape[1], counts)
        X = self.decoder(tokens, View(**chunk.view()), chunk=chunk, memory=state.memory)
        chunk.finish()
        if last:
            ends = (chunk.counts - 1).clamp(min=0).to(X.device)
            X = X[torch.arange(len(X), device=X.device), ends][:, None]
        return site(self, "logits", self.head(X))


def causal_view(tokens: Tensor, documents: Tensor | None = None) -> View:
    """Every token may look at itself and what is before it; padding on the right is hidden by that alone."""
    at = torch.arange(tokens.shape[1], device=tokens.device)[None]  # (1, n)
    if documents is None:
        return View(at, at, causal=True, aligned=True)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    at = at - (at * begins).cummax(1).values  # counted from the beginning of each document
    numbers = begins.cumsum(1)
    return View(at, at, causal=True, documents=(numbers, numbers), aligned=True)
