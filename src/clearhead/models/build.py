"""From settings to a model."""

import torch

from clearhead.config.model_base import AnyModelConfig, Shape
from clearhead.models.convolutional.models import ConvolutionalDecoder, ConvolutionalEncoder
from clearhead.models.initialise import initialise
from clearhead.models.model import Model
from clearhead.models.recurrent.models import RecurrentDecoder, RecurrentEncoder, RecurrentTranslator
from clearhead.models.transformer.decoder import Decoder
from clearhead.models.transformer.encoder import Encoder
from clearhead.models.transformer.translator import Translator

# By the family and the shape; a config refuses a shape that its family does not have.
FAMILIES: dict[str, dict[Shape, type[Model]]] = {
    "transformer": {"decoder": Decoder, "encoder": Encoder, "encoder-decoder": Translator},
    "recurrent": {
        "decoder": RecurrentDecoder,
        "encoder": RecurrentEncoder,
        "encoder-decoder": RecurrentTranslator,
    },
    "convolutional": {"decoder": ConvolutionalDecoder, "encoder": ConvolutionalEncoder},
}


def build(config: AnyModelConfig, seed: int = 1) -> Model:
    """A new model with random weights, in evaluation mode: dropout is on only where training turns it on."""
    model = FAMILIES[config.family][config.shape](config)
    initialise(model, config, seed)
    model.quieten()
    return model.eval()


def empty(config: AnyModelConfig) -> Model:
    """A model whose weights have shapes but no memory, for weights that come from elsewhere."""
    with torch.device("meta"):
        return FAMILIES[config.family][config.shape](config)
