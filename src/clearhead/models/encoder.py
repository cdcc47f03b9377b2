"""The encoder: one vector per token that has seen them all, read as classes, as masked tokens, or as is."""

import torch
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.masks import View, real_tokens
from clearhead.layers.sites import site
from clearhead.models.heads import make_head
from clearhead.models.inputs import check_counts, check_length, check_same, check_tokens
from clearhead.models.stack import Stack, make_table


class Encoder(nn.Module):
    """Embeddings, stacked blocks without a causal mask, and a head."""

    sites = ("logits",)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        table = make_table(config.vocabulary, config.width_encoder)
        self.encoder = Stack(config, "encoder", table, config.encoder_blocks)
        self.head = make_head(config, table)

    def forward(self, tokens: Tensor, counts: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Logits (b, classes), or (b, n, vocabulary) of a masked language model.

        `counts` (b,) are the real tokens of each row; `types` (b, n) the segment of each token.
        """
        return site(self, "logits", self.head(self.vectors(tokens, counts, types), counts))

    def vectors(self, tokens: Tensor, counts: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """One vector per token: (b, n, d)."""
        config = self.config
        check_tokens(tokens, config.vocabulary, config.width_encoder)
        check_counts(counts, tokens)
        check_length(tokens.shape[1], config.context)
        check_same(types, tokens, config.token_types, "types")
        return encode(self.encoder, tokens, counts, types)


def encode(stack: Stack, tokens: Tensor, counts: Tensor | None, types: Tensor | None = None) -> Tensor:
    """Every token may look at every real token: (b, n, d)."""
    at = torch.arange(tokens.shape[1], device=tokens.device)[None]
    real = real_tokens(counts, tokens.shape[1])
    return stack(tokens, View(at, at, real=real, aligned=True), real, types)
