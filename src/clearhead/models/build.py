"""From settings to a model."""

import torch

from clearhead.config.model import ModelConfig
from clearhead.models.model import Model
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.encoder import Encoder
from clearhead.models.transformer.initialise import initialise
from clearhead.models.transformer.translator import Translator

SHAPES: dict[str, type[Model]] = {"decoder": Decoder, "encoder": Encoder, "encoder-decoder": Translator}


def build(config: ModelConfig, seed: int = 1) -> Model:
    """A new model with random weights, in evaluation mode: dropout is on only where training turns it on."""
    model = SHAPES[config.shape](config)
    initialise(model, config, seed)
    return model.eval()


def empty(config: ModelConfig) -> Model:
    """A model whose weights have shapes but no memory, for weights that come from elsewhere."""
    with torch.device("meta"):
        return SHAPES[config.shape](config)
