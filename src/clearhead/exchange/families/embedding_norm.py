"""A norm of the embeddings, written into their table: a model leaves without it, and computes the same.

Other programs have no norm after the embeddings of a decoder. Where nothing but a token's own vector enters it, every
row of the table can be normed once for all:  e_t <- norm(s e_t), with s the scale of the embeddings.
"""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.exchange.weights.read import StoredTensor
from clearhead.layers.norms import NORMS

TABLE, NORM = "decoder.tokens.weight", "decoder.embedding_norm."
ADDED = ("learned", "sinusoidal")  # positions that are added to the tokens


def fits_into_table(config: ModelConfig) -> bool:
    """Whether only the token decides what the norm gives, and no head shares the table."""
    is_alone = config.positions not in ADDED and not config.token_types and config.convolution is None
    is_shared = config.head == "language" and config.tied
    return config.shape == "decoder" and config.embedding_norm and is_alone and not is_shared


def without_embedding_norm(config: ModelConfig) -> ModelConfig:
    """The same settings without the norm, if it fits into the table."""
    return config.replace(embedding_norm=False, embedding_scale=1.0) if fits_into_table(config) else config


def with_normed_table(config: ModelConfig, weights: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """The weights of a model with these settings, for those without the norm."""
    if not fits_into_table(config):
        return dict(weights)
    table = weights[TABLE]

    def read() -> Tensor:
        norm = NORMS[config.norm](config.d, config.norm_epsilon, config.norm_bias)
        norm.load_state_dict(
            {
                name.removeprefix(NORM): one.read().float()
                for name, one in weights.items()
                if name.startswith(NORM)
            }
        )
        E = norm(table.read().float() * config.embedding_scale)
        return E.detach().to(table.dtype)

    others = {name: one for name, one in weights.items() if not name.startswith(NORM)}
    return others | {TABLE: replace(table, read=read)}
