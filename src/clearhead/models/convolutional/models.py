"""Convolutional models of two shapes: `Inputs` enter, logits leave."""

import torch
from torch import Tensor, nn

from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.layers.rows import RowState
from clearhead.models.convolutional.stack import CausalStack, FilterStack
from clearhead.models.heads import make_head
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model, State
from clearhead.models.stack import make_table
from clearhead.models.writer import RowWriter


class ConvolutionalDecoder(RowWriter):
    """A language model that sees as many tokens as its filters reach."""

    config: ConvolutionalConfig
    decoder: CausalStack

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config)
        table = make_table(config.vocabulary, config.d)
        self.decoder = CausalStack(config, table)
        self.head = make_head(config, table)

    def new_state(
        self, batch: int, capacity: int, source: Tensor | None, source_counts: Tensor | None
    ) -> RowState:
        """Nothing under any filter."""
        return RowState(self.decoder.empty(batch), torch.zeros(batch, dtype=torch.long), capacity)

    def extend(self, tokens: Tensor, state: State, counts: Tensor | None) -> Tensor:
        """Passes tokens (b, n) under the filters and gives their vectors (b, n, d)."""
        assert isinstance(state, RowState)
        read = state.room_for(tokens, counts)
        X, pasts = self.decoder(self.decoder.embed(tokens), state.tensors, read)
        state.grow(pasts, read)
        return X


class ConvolutionalEncoder(Model):
    """What filters of several widths find at each token; a classifier reads the largest of each (Kim, 2014)."""

    config: ConvolutionalConfig

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config)
        table = make_table(config.vocabulary, config.width_tokens)
        self.encoder = FilterStack(config, table)
        self.head = make_head(config, table)

    def quieten(self) -> None:
        """Positions start at zero: as large as the letters, they would hide from the filters what is there."""
        if self.encoder.positions is not None:
            nn.init.zeros_(self.encoder.positions.weight)

    def vectors(self, inputs: Inputs) -> Tensor:
        """One vector per token: (b, n, d)."""
        self.check(inputs)
        return self.encoder(self.encoder.embed(inputs.tokens), inputs.counts)
