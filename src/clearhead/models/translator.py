"""The encoder-decoder: a source text in the encoder, a target text in a decoder that looks at the source."""

from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.errors import InputError
from clearhead.layers.cache import Memory, State
from clearhead.layers.masks import real_tokens
from clearhead.layers.sites import site
from clearhead.models.decoder import Decoder, causal_view
from clearhead.models.encoder import encode
from clearhead.models.heads import make_head
from clearhead.models.inputs import check_counts, check_length, check_tokens
from clearhead.models.stack import Stack, make_table


class Translator(Decoder):
    """A decoder whose blocks also attend to an encoder's output."""

    def __init__(self, config: ModelConfig) -> None:
        nn.Module.__init__(self)
        self.config = config
        source = make_table(config.vocabulary_encoder, config.width_encoder)
        target = source if config.is_shared else make_table(config.vocabulary, config.d)
        self.encoder = Stack(config, "encoder", source, config.encoder_blocks)
        self.decoder = Stack(config, "decoder", target, config.decoder_blocks, config.width_encoder)
        self.head = make_head(config, target)

    def forward(  # type: ignore[override]
        self,
        tokens: Tensor,
        source: Tensor,
        counts: Tensor | None = None,
        source_counts: Tensor | None = None,
    ) -> Tensor:
        """Logits for the target token after each of `tokens`: (b, n, vocabulary)."""
        return site(self, "logits", self.head(self.vectors(tokens, source, counts, source_counts), counts))

    def vectors(  # type: ignore[override]
        self,
        tokens: Tensor,
        source: Tensor,
        counts: Tensor | None = None,
        source_counts: Tensor | None = None,
    ) -> Tensor:
        """What the head reads: (b, n, d)."""
        self.check(tokens, counts)
        memory = self.remember(source, source_counts, len(tokens))
        return self.decoder(tokens, causal_view(tokens), memory=memory)

    def encode(self, source: Tensor, counts: Tensor | None = None) -> Tensor:
        """The encoder's output, one vector per source token: (b, m, encoder_d)."""
        check_tokens(source, self.config.vocabulary_encoder, self.config.width_encoder, "source")
        check_counts(counts, source, what="source_counts")
        check_length(source.shape[1], self.config.context, "source")
        return encode(self.encoder, source, counts)

    def remember(self, source: Tensor, counts: Tensor | None, batch: int) -> Memory:
        """The source as the decoder's cross-attention sees it."""
        X = self.encode(source, counts)
        if len(X) != batch:
            raise InputError(
                f"There are {len(X)} sources for {batch} targets.\nGive one source for each row of the batch."
            )
        return self.decoder.remember(X, real_tokens(counts, X.shape[1]))

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> State:
        """An empty state for translations of `source`, which is encoded here, once."""
        if source is None:
            raise InputError(
                "A translator needs a source to begin.\nGive source = the ids of the source text (b, m)."
            )
        return State(self.empty_cache(batch, capacity), self.remember(source, source_counts, batch))
