"""The encoder: one vector per token that has seen them all, read as classes, as masked tokens, or as vectors."""

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.layers.masks import View, real_tokens
from clearhead.models.inputs import Inputs, check_same
from clearhead.models.model import Model
from clearhead.models.stack import make_table
from clearhead.models.transformer.heads import make_transformer_head
from clearhead.models.transformer.initialise import quiet_outputs
from clearhead.models.transformer.stack import TransformerStack


class Encoder(Model):
    """Embeddings, stacked blocks without a causal mask, and a head."""

    takes = ("types",)
    config: ModelConfig

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        table = make_table(config.vocabulary, config.width_encoder)
        self.encoder = TransformerStack(config, "encoder", table, config.encoder_blocks)
        self.head = make_transformer_head(config, table)

    def quieten(self) -> None:
        """Lets every sublayer add little at first."""
        quiet_outputs(self, self.config)

    def vectors(self, inputs: Inputs) -> Tensor:
        """One vector per token: (b, n, d)."""
        self.check(inputs)
        check_same(inputs.types, inputs.tokens, self.config.token_types, "types")
        return encode(self.encoder, inputs.tokens, inputs.counts, inputs.types)


def encode(
    stack: TransformerStack, tokens: Tensor, counts: Tensor | None, types: Tensor | None = None
) -> Tensor:
    """Every token may look at every real token: (b, n, d)."""
    at = torch.arange(tokens.shape[1], device=tokens.device)[None]
    real = real_tokens(counts, tokens.shape[1])
    return stack(tokens, View(at, at, real=real, aligned=True), real, types)
