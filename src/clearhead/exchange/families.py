"""The families of Hugging Face that are settings of our model: what each is, what its weights are called."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.config.model import Head, ModelConfig
from clearhead.errors import ConfigError, suggest
from clearhead.exchange import names, settings
from clearhead.exchange.folder import check_no_code
from clearhead.exchange.rules import Names
from clearhead.exchange.source import Source, head_of


@dataclass(frozen=True)
class Family:
    """From their config to ours, and from their weight names to ours and back."""

    settings: Callable[[Source], ModelConfig]
    names: Names


FAMILIES = {  # by the `model_type` of their config
    "gpt2": Family(settings.gpt2, names.GPT2),
    "llama": Family(settings.llama, names.LLAMA),
    "mistral": Family(settings.mistral, names.LLAMA),
    "qwen2": Family(settings.qwen2, names.LLAMA),
    "qwen3": Family(settings.qwen3, names.LLAMA),
    "bert": Family(settings.bert, names.BERT),
    "roberta": Family(settings.roberta, names.ROBERTA),
    "distilbert": Family(settings.distilbert, names.DISTILBERT),
    "marian": Family(settings.marian, names.MARIAN),
    "t5": Family(settings.t5, names.T5),
}


def family_of(config: Mapping[str, Any]) -> Family:
    """The family that a config of theirs belongs to."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ConfigError(
            f"config.json: model_type = {kind!r} cannot be read. {suggest(str(kind), FAMILIES)}"
        )
    return FAMILIES[kind]


def config_from(
    config: Mapping[str, Any], head: Head | None = None, weights: Collection[str] | None = None
) -> ModelConfig:
    """Our settings for a config of theirs.

    `head` is what shall be read from the top, their architecture's when not given; `weights` are the names
    in their file, for the one family whose config does not tell whether the head is tied.
    """
    check_no_code("config.json", config)
    return family_of(config).settings(Source(config, head or head_of(config), weights))
