"""The Hugging Face families that clearhead imports and exports, one row each."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.config.model import ModelConfig
from clearhead.config.model_base import Head, Shape
from clearhead.errors import ConfigError, suggest
from clearhead.exchange.families import export_config, import_config, weight_names
from clearhead.exchange.families.hf_config import HuggingFaceConfig, head_of
from clearhead.exchange.hf_folder import check_no_code
from clearhead.exchange.weights.rename import WeightNames


@dataclass(frozen=True)
class Family:
    """How the models of a family are imported and exported."""

    shape: Shape
    import_config: Callable[[HuggingFaceConfig], ModelConfig]
    export_config: Callable[[ModelConfig], dict[str, Any]]
    weight_names: WeightNames


# By the `model_type` in config.json. Export chooses the first family of the right shape that fits.
FAMILIES = {
    "llama": Family("decoder", import_config.from_llama, export_config.to_llama, weight_names.LLAMA),
    "mistral": Family("decoder", import_config.from_mistral, export_config.to_mistral, weight_names.LLAMA),
    "qwen2": Family("decoder", import_config.from_qwen2, export_config.to_qwen2, weight_names.LLAMA),
    "qwen3": Family("decoder", import_config.from_qwen3, export_config.to_qwen3, weight_names.LLAMA),
    "gpt2": Family("decoder", import_config.from_gpt2, export_config.to_gpt2, weight_names.GPT2),
    "eurobert": Family(
        "encoder", import_config.from_eurobert, export_config.to_eurobert, weight_names.EUROBERT
    ),
    "bert": Family("encoder", import_config.from_bert, export_config.to_bert, weight_names.BERT),
    "roberta": Family("encoder", import_config.from_roberta, export_config.to_roberta, weight_names.ROBERTA),
    "distilbert": Family(
        "encoder", import_config.from_distilbert, export_config.to_distilbert, weight_names.DISTILBERT
    ),
    "marian": Family(
        "encoder-decoder", import_config.from_marian, export_config.to_marian, weight_names.MARIAN
    ),
    "t5": Family("encoder-decoder", import_config.from_t5, export_config.to_t5, weight_names.T5),
}


# Families that are refused with a reason, as their names suggest that they could be imported.
UNSUPPORTED = {
    "albert": "all its blocks share one set of weights, and its embeddings are narrower than its blocks",
    "deberta": "its scores depend on relative positions inside the products of queries and keys",
    "deberta-v2": "its scores depend on relative positions inside the products of queries and keys",
    "electra": "its embeddings are narrower than its blocks",
    "modernbert": "its blocks differ: the first has no norm, and most attend within a window only",
}


def family_of(config: Mapping[str, Any]) -> Family:
    """The family that config.json names."""
    kind = config.get("model_type")
    if isinstance(kind, str) and kind in UNSUPPORTED:
        raise ConfigError(
            f"config.json: a model of type {kind} cannot be imported: {UNSUPPORTED[kind]}.\n"
            f"Use a model of one of these types: {', '.join(FAMILIES)}."
        )
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ConfigError(
            f"config.json: model_type = {kind!r} is unsupported. {suggest(str(kind), FAMILIES)}"
        )
    return FAMILIES[kind]


def config_from(
    config: Mapping[str, Any], head: Head | None = None, weights: Collection[str] | None = None
) -> ModelConfig:
    """Our settings for the content of a config.json.

    `head` is the head to import, by default that of the architecture; `weights` are the names in the weight file,
    for the one family whose config does not say whether the head is tied.
    """
    check_no_code("config.json", config)
    return family_of(config).import_config(HuggingFaceConfig(config, head or head_of(config), weights))
