"""From settings to a model."""

from clearhead.config.model import ModelConfig
from clearhead.models.decoder import Decoder
from clearhead.models.encoder import Encoder
from clearhead.models.initialise import initialise
from clearhead.models.translator import Translator

Model = Decoder | Encoder | Translator

SHAPES: dict[str, type[Decoder] | type[Encoder]] = {
    "decoder": Decoder,
    "encoder": Encoder,
    "encoder-decoder": Translator,
}


def build(config: ModelConfig, seed: int = 1) -> Model:
    """A new model with random weights, in evaluation mode: dropout is on only where training turns it on."""
    model = SHAPES[config.shape](config)
    initialise(model, config, seed)
    return model.eval()
