"""The encoder-decoder: a source text in the encoder, a target text in a decoder that looks at the source."""

from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.layers.cache import DecoderState
from clearhead.layers.masks import real_tokens
from clearhead.layers.memory import Memory
from clearhead.models.inputs import Inputs
from clearhead.models.stack import make_table
from clearhead.models.transformer.decoder import Decoder, causal_view
from clearhead.models.transformer.encoder import encode
from clearhead.models.transformer.heads import make_transformer_head
from clearhead.models.transformer.stack import TransformerStack


class Translator(Decoder):
    """A decoder whose blocks also attend to an encoder's output."""

    takes = ("source", "source_counts")
    translates = True

    def build_stacks(self, config: ModelConfig) -> None:
        """Both stacks and the head."""
        source = make_table(config.vocabulary_encoder, config.width_encoder)
        target = source if config.is_shared else make_table(config.vocabulary, config.d)
        self.encoder = TransformerStack(config, "encoder", source, config.encoder_blocks)
        self.decoder = TransformerStack(
            config, "decoder", target, config.decoder_blocks, config.width_encoder
        )
        self.head = make_transformer_head(config, target)

    def vectors(self, inputs: Inputs) -> Tensor:
        """What the head reads of the target, whose blocks have looked at the source: (b, n, d)."""
        self.check(inputs)
        memory = self.remember(inputs.source, inputs.source_counts, len(inputs.tokens))
        return self.decoder(inputs.tokens, causal_view(inputs.tokens), memory=memory)

    def encode(self, tokens: Tensor, counts: Tensor | None = None) -> Tensor:
        """The encoder's output, one vector per source token: (b, m, encoder_d)."""
        self.check_source(tokens, counts)
        return encode(self.encoder, tokens, counts)

    def remember(self, source: Tensor | None, counts: Tensor | None, batch: int) -> Memory:
        """The source as the decoder's cross-attention sees it."""
        X = self.encode_source(source, counts, batch)
        return self.decoder.remember(X, real_tokens(counts, X.shape[1]))

    def new_state(
        self, batch: int, capacity: int, source: Tensor | None, source_counts: Tensor | None
    ) -> DecoderState:
        """An empty cache for translations of `source`, which is encoded here, once."""
        state = super().new_state(batch, capacity, source, source_counts)
        state.memory = self.remember(source, source_counts, batch)
        return state
