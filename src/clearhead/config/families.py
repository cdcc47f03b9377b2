"""The families of models, and which of them a table means: settings enter, the config of a family leaves."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from clearhead.config.convolutional import ConvolutionalConfig
from clearhead.config.model import ModelConfig
from clearhead.config.model_base import AnyModelConfig
from clearhead.config.recurrent import RecurrentConfig
from clearhead.errors import ConfigError, suggest

FAMILIES: dict[str, type[AnyModelConfig]] = {
    "transformer": ModelConfig,
    "recurrent": RecurrentConfig,
    "convolutional": ConvolutionalConfig,
}


def family_of(settings: Mapping[str, Any]) -> type[AnyModelConfig]:
    """The family that a table of settings names; a transformer if it names none."""
    family = settings.get("family", "transformer")
    if family not in list(FAMILIES):  # which need not be hashable
        raise ConfigError(f"model.family = {family!r:.80} is unknown. {suggest(str(family), FAMILIES)}")
    return FAMILIES[family]


def read_model_config(settings: Mapping[str, Any]) -> AnyModelConfig:
    """The config of a model of any family from its settings."""
    return family_of(settings)(**settings)


def _tag(settings: Any) -> str:
    """The family of a table of settings, or of a config."""
    if isinstance(settings, AnyModelConfig):
        return settings.family
    named = family_of(settings if isinstance(settings, Mapping) else {})
    return str(named.model_fields["family"].default)


# A field that takes the settings of any family.
ModelSettings = Annotated[
    Annotated[ModelConfig, Tag("transformer")]
    | Annotated[RecurrentConfig, Tag("recurrent")]
    | Annotated[ConvolutionalConfig, Tag("convolutional")],
    Discriminator(_tag),
]
