"""The head of BERT: a dense layer, gelu and a norm before the language head."""

import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.config.model import ModelConfig
from clearhead.layers.masks import real_tokens
from clearhead.layers.norms import NORMS
from clearhead.models.heads import LanguageHead, make_head


class TransformedHead(LanguageHead):
    """Logits over the vocabulary from norm(gelu(W x + b))."""

    def __init__(self, config: ModelConfig, table: nn.Embedding) -> None:
        super().__init__(config, table)
        d, norm = config.width_top, config.norm_encoder if config.shape == "encoder" else config.norm
        self.transform = nn.Linear(d, d)
        self.transform_norm = NORMS[norm](d, config.norm_epsilon, config.norm_bias)

    def forward(self, X: Tensor, counts: Tensor | None = None) -> Tensor:
        """(b, n, d) -> (b, n, vocabulary)."""
        return super().forward(
            self.transform_norm(F.gelu(self.transform(X)), real_tokens(counts, X.shape[1]))
        )


def make_transformer_head(config: ModelConfig, table: nn.Embedding) -> nn.Module:
    """The head that the config names; the transform belongs to a language head."""
    is_transformed = config.head == "language" and config.head_transform
    return TransformedHead(config, table) if is_transformed else make_head(config, table)
