"""The decoder: a language model. Ids (b, n) become logits for the token after each: (b, n, vocabulary)."""

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.layers.cache import DecoderState
from clearhead.layers.masks import View, document_starts
from clearhead.models.inputs import Inputs
from clearhead.models.model import State
from clearhead.models.stack import make_table
from clearhead.models.transformer.heads import make_transformer_head
from clearhead.models.transformer.initialise import quiet_outputs
from clearhead.models.transformer.stack import TransformerStack
from clearhead.models.writer import Writer


class Decoder(Writer[DecoderState]):
    """Embeddings, stacked causal blocks, and a language-model head."""

    config: ModelConfig

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.build_stacks(config)

    def build_stacks(self, config: ModelConfig) -> None:
        """The stack and the head."""
        table = make_table(config.vocabulary, config.d)
        self.decoder = TransformerStack(config, "decoder", table, config.decoder_blocks)
        self.head = make_transformer_head(config, table)

    def quieten(self) -> None:
        """Lets every sublayer add little at first."""
        quiet_outputs(self, self.config)

    def vectors(self, inputs: Inputs) -> Tensor:
        """What the head reads: (b, n, d)."""
        self.check(inputs)
        return self.decoder(inputs.tokens, causal_view(inputs.tokens, inputs.documents))

    def new_state(
        self, batch: int, capacity: int, source: Tensor | None, source_counts: Tensor | None
    ) -> DecoderState:
        """An empty cache."""
        return DecoderState(self.decoder.cache(batch, capacity))

    def extend(self, tokens: Tensor, state: State, counts: Tensor | None) -> Tensor:
        """Adds tokens (b, n) to the cache and gives their vectors (b, n, d)."""
        assert isinstance(state, DecoderState)
        chunk = state.cache.open(tokens.shape[1], counts)
        X = self.decoder(tokens, View(**chunk.view()), chunk=chunk, memory=state.memory)
        chunk.finish()
        return X


def causal_view(tokens: Tensor, documents: Tensor | None = None) -> View:
    """Every token may look at itself and what is before it; padding on the right is hidden by that alone."""
    at = torch.arange(tokens.shape[1], device=tokens.device)[None]  # (1, n)
    if documents is None:
        return View(at, at, causal=True, aligned=True)
    starts = document_starts(documents)
    at = at - (at * starts).cummax(1).values  # counted from the start of each document
    numbers = starts.cumsum(1)
    return View(at, at, causal=True, documents=(numbers, numbers), aligned=True)
