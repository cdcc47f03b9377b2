"""Recurrent models of the three shapes: `Inputs` enter, logits leave."""

import torch
from torch import Tensor, nn

from clearhead.config.recurrent import RecurrentConfig
from clearhead.layers.masks import real_tokens
from clearhead.layers.memory import Memory
from clearhead.layers.rows import RowState
from clearhead.models.heads import make_head
from clearhead.models.inputs import Inputs
from clearhead.models.model import Model, State
from clearhead.models.recurrent.stack import AttendingBlock, RecurrentStack
from clearhead.models.stack import make_table
from clearhead.models.writer import RowWriter


class RecurrentDecoder(RowWriter):
    """A recurrent language model: one state must hold all that was read (N41, N42)."""

    config: RecurrentConfig
    decoder: RecurrentStack

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        self.build_stacks(config)

    def build_stacks(self, config: RecurrentConfig) -> None:
        """The stack and the head."""
        table = make_table(config.vocabulary, config.d)
        self.decoder = RecurrentStack(config, "decoder", table, config.decoder_blocks)
        self.head = make_head(config, table)

    def new_state(
        self, batch: int, capacity: int, source: Tensor | None, source_counts: Tensor | None
    ) -> RowState:
        """States of zeros."""
        states, memory = self.first_states(batch, source, source_counts)
        return RowState(states, torch.zeros(batch, dtype=torch.long), capacity, memory)

    def first_states(
        self, batch: int, source: Tensor | None, source_counts: Tensor | None
    ) -> tuple[list[Tensor], Memory | None]:
        """The states before the first token, and what the decoder may look back at."""
        E = self.decoder.tokens.weight
        count = len(self.decoder.blocks) * self.decoder.states
        return [E.new_zeros(batch, E.shape[1]) for _ in range(count)], None

    def extend(self, tokens: Tensor, state: State, counts: Tensor | None) -> Tensor:
        """Reads tokens (b, n) into the states and gives their vectors (b, n, d)."""
        assert isinstance(state, RowState)
        read = state.room_for(tokens, counts)
        ragged = None if bool((read == tokens.shape[1]).all()) else read.to(tokens.device)
        X, states = self.decoder(self.decoder.embed(tokens), state.tensors, ragged, state.memory, tracks=True)
        state.grow(states, read)
        return X


class RecurrentEncoder(Model):
    """One state per token, read in one direction or in both; a classifier, or vectors (N45)."""

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__(config)
        table = make_table(config.vocabulary, config.d)
        self.encoder = RecurrentStack(config, "encoder", table, config.encoder_blocks)
        self.head = make_head(config, table)

    def vectors(self, inputs: Inputs) -> Tensor:
        """One vector per token: (b, n, d)."""
        self.check(inputs)
        return self.encoder(self.encoder.embed(inputs.tokens), counts=inputs.counts)[0]


class RecurrentTranslator(RecurrentDecoder):
    """A decoder that starts from an encoder's last state (Sutskever et al., 2014), and may look back at all (N43)."""

    takes = ("source", "source_counts")
    translates = True

    def build_stacks(self, config: RecurrentConfig) -> None:
        """Both stacks, the bridge between them, and the head."""
        source = make_table(config.vocabulary_encoder, config.d)
        target = source if config.is_shared else make_table(config.vocabulary, config.d)
        d_memory = config.d if config.attentions() else None
        self.encoder = RecurrentStack(config, "encoder", source, config.encoder_blocks)
        self.decoder = RecurrentStack(config, "decoder", target, config.decoder_blocks, d_memory)
        self.bridge = nn.Linear(config.d, config.d * config.decoder_blocks * self.decoder.states)
        self.head = make_head(config, target)

    def vectors(self, inputs: Inputs) -> Tensor:
        """What the head reads of the target: (b, n, d)."""
        self.check(inputs)
        states, memory = self.first_states(len(inputs.tokens), inputs.source, inputs.source_counts)
        return self.decoder(self.decoder.embed(inputs.tokens), states, memory=memory)[0]

    def encode(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        """The encoder's states, one per source token: (b, m, d)."""
        self.check_source(tokens, counts)
        return self.encoder(self.encoder.embed(tokens), counts=counts)[0]

    def first_states(
        self, batch: int, source: Tensor | None, source_counts: Tensor | None
    ) -> tuple[list[Tensor], Memory | None]:
        """s_0 = tanh(W h_m) of each block, and the source's keys and values if the decoder looks back."""
        H = self.encode_source(source, source_counts, batch)
        states = torch.tanh(self.bridge(self.encoder.summary(H, source_counts)))
        first = self.decoder.blocks[0]
        memory = None
        if isinstance(first, AttendingBlock):
            memory = Memory(
                [first.cross.keys_values(H)], real_tokens(source_counts, H.shape[1]), *H.shape[:2]
            )
        return list(states.split(self.config.d, -1)), memory
