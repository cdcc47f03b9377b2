"""The encoder: one vector per token that has seen them all, read as classes, as masked tokens, or as vectors."""

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.layers.masks import View, real_tokens
from clearhead.models.inputs import Inputs, check_counts, check_length, check_same, check_tokens
from clearhead.models.model import Model
from clearhead.models.transformer.heads import make_head
from clearhead.models.transformer.stack import Stack, make_table


class Encoder(Model):
    """Embeddings, stacked blocks without a causal mask, and a head."""

    takes = ("types",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        table = make_table(config.vocabulary, config.width_encoder)
        self.encoder = Stack(config, "encoder", table, config.encoder_blocks)
        self.head = make_head(config, table)

    def vectors(self, inputs: Inputs) -> Tensor:
        """One vector per token: (b, n, d)."""
        self.check_fields(inputs)
        config, tokens = self.config, inputs.tokens
        check_tokens(tokens, config.vocabulary, config.width_encoder)
        check_counts(inputs.counts, tokens)
        check_length(tokens.shape[1], config)
        check_same(inputs.types, tokens, config.token_types, "types")
        return encode(self.encoder, tokens, inputs.counts, inputs.types)


def encode(stack: Stack, tokens: Tensor, counts: Tensor | None, types: Tensor | None = None) -> Tensor:
    """Every token may look at every real token: (b, n, d)."""
    at = torch.arange(tokens.shape[1], device=tokens.device)[None]
    real = real_tokens(counts, tokens.shape[1])
    return stack(tokens, View(at, at, real=real, aligned=True), real, types)
