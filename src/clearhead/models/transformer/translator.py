"""The encoder-decoder: a source text in the encoder, a target text in a decoder that looks at the source."""

from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError
from clearhead.layers.cache import DecoderState, Memory
from clearhead.layers.masks import real_tokens
from clearhead.models.inputs import Inputs, check_counts, check_length, check_tokens
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder, causal_view
from clearhead.models.transformer.encoder import encode
from clearhead.models.transformer.heads import make_head
from clearhead.models.transformer.stack import Stack, make_table


class Translator(Decoder):
    """A decoder whose blocks also attend to an encoder's output."""

    takes = ("source", "source_counts")
    translates = True

    def __init__(self, config: ModelConfig) -> None:
        Model.__init__(self, config)
        source = make_table(config.vocabulary_encoder, config.width_encoder)
        target = source if config.is_shared else make_table(config.vocabulary, config.d)
        self.encoder = Stack(config, "encoder", source, config.encoder_blocks)
        self.decoder = Stack(config, "decoder", target, config.decoder_blocks, config.width_encoder)
        self.head = make_head(config, target)

    def vectors(self, inputs: Inputs) -> Tensor:
        """What the head reads of the target, whose blocks have looked at the source: (b, n, d)."""
        self.check(inputs)
        memory = self.remember(inputs.source, inputs.source_counts, len(inputs.tokens))
        return self.decoder(inputs.tokens, causal_view(inputs.tokens), memory=memory)

    def encode(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        """The encoder's output, one vector per source token: (b, m, encoder_d)."""
        check_tokens(tokens, self.config.vocabulary_encoder, self.config.width_encoder, "source")
        check_counts(counts, tokens, what="source_counts")
        check_length(tokens.shape[1], self.config, "source")
        return encode(self.encoder, tokens, counts)

    def remember(self, source: Tensor | None, counts: Tensor | None, batch: int) -> Memory:
        """The source as the decoder's cross-attention sees it."""
        assert source is not None  # the border has checked it
        X = self.encode(source, counts)
        if len(X) != batch:
            raise InputError(
                f"There are {len(X)} sources for {batch} targets.\nGive one source for each row of the batch."
            )
        return self.decoder.remember(X, real_tokens(counts, X.shape[1]))

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> DecoderState:
        """An empty state for translations of `source`, which is encoded here, once."""
        state = super().start(batch, capacity, source, source_counts)
        state.memory = self.remember(source, source_counts, batch)
        return state
