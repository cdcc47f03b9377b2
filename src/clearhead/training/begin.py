"""Where a run begins from: the settings, tokenizers and weights of another model enter those of a new one."""

import torch

from clearhead.checkpoint import Checkpoint
from clearhead.config.model import ModelConfig
from clearhead.data.tokenizers import Tokenizers
from clearhead.errors import ConfigError
from clearhead.models.build import Model

# What a recipe says of a model that starts from another one; all else must be as it is there.
OWN = ("head", "classes", "pool", "pool_dense", "dropout", "attention_dropout")


def begun_from(given: ModelConfig, stated: ModelConfig) -> ModelConfig:
    """The settings of the model to start from, so that its weights fit; the recipe says what is read from its top."""
    own = {key: value for key in OWN if (value := getattr(stated, key)) != getattr(given, key)}
    return given.replace(**own, unit_length=False)


def tokenizers_of(given: Checkpoint) -> Tokenizers | None:
    """The tokenizers of a model to start from."""
    if given.tokenizer is None:
        return None
    return Tokenizers(given.source_tokenizer or given.tokenizer, given.tokenizer)


def take_weights(model: Model, given: Model) -> None:
    """Copies the weights that both models have; a new head keeps its own."""
    theirs = dict(given.named_parameters())
    taken = 0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name in theirs and theirs[name].shape == weight.shape:
                weight.copy_(theirs[name])
                taken += 1
    if not taken:
        raise ConfigError(
            "training.init_from holds no weight that fits this model.\nUse the same d, h and blocks in [model]."
        )
