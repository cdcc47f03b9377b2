"""A Marian that starts from a zero vector: one that starts from its begin token enters, the same translations leave.

Marian's decoder starts from the zero row of its padding token, the last one, and CTranslate2 takes no other. What the
begin token adds to the first position goes into the table of positions instead, at position 0, where nothing else is
ever added. The new token has an output bias that lets no search choose it.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError, ModelFolderError
from clearhead.exchange.weights.read import StoredTensor
from clearhead.layers.positions import Sinusoidal

TABLE, BIAS, POSITIONS = "model.shared.weight", "final_logits_bias", "model.decoder.embed_positions.weight"
NEVER = -10_000.0  # a logit, which also has a place in float16


def check_zero_start(config: ModelConfig) -> None:
    """Rejects what cannot start from a zero vector: a translator whose languages have different vocabularies."""
    if not (config.is_shared and config.tied):
        raise ConfigError(
            "CTranslate2's converter removes the same last token from both languages of a marian, and from its head: "
            "model.shared and model.tied must be true.\nExport it without --for, for transformers."
        )


def starting_from_zero(
    tensors: Mapping[str, StoredTensor], config: ModelConfig, begin: int
) -> dict[str, StoredTensor]:
    """Marian's tensors with one more token, whose row is zero, and with the begin token inside the positions."""
    table, bias = tensors[TABLE], tensors[BIAS]
    more = {
        TABLE: longer(table, 0, 0.0),
        BIAS: longer(bias, 1, NEVER),
        POSITIONS: StoredTensor(
            torch.Size((config.context or 1024, config.d)),
            table.dtype,
            lambda: positions(table.read()[begin], config),
        ),
    }
    return {**tensors, **more}


def longer(stored: StoredTensor, axis: int, number: float) -> StoredTensor:
    """A tensor with one more row or column of a number."""
    shape = list(stored.shape)
    one, shape[axis] = [*shape], shape[axis] + 1
    one[axis] = 1

    def read() -> Tensor:
        X = stored.read()
        return torch.cat([X, X.new_full(one, number)], axis)

    return StoredTensor(torch.Size(shape), stored.dtype, read)


def positions(begin: Tensor, config: ModelConfig) -> Tensor:
    """The sinusoids, with the vector of the begin token added at position 0."""
    P = Sinusoidal(config, config.d, causal=True).embed(torch.arange(config.context or 1024))
    P[0] += begin.float() * config.embedding_scale
    return P.to(begin.dtype)


def check_positions(weights: Mapping[str, StoredTensor], config: ModelConfig) -> None:
    """Rejects a Marian with a begin token inside its positions: ours are sinusoids."""
    stored = weights.get(POSITIONS)
    if stored is None:
        return
    expected = Sinusoidal(config, config.d, causal=True).embed(torch.arange(1))[0]
    if not torch.allclose(stored.read()[0].float(), expected, atol=1e-2):
        raise ModelFolderError(
            f"{POSITIONS} is not a table of sinusoids: the folder was exported for CTranslate2.\n"
            "Import the folder of an ordinary export, or use the model folder that it was made from."
        )
