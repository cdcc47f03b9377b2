"""A model's settings, where a test knows their family."""

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig


def transformer(config: AnyModelConfig) -> ModelConfig:
    """The settings of a transformer."""
    assert isinstance(config, ModelConfig)
    return config
