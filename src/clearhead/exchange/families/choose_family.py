"""Chooses the Hugging Face family that can represent a model of ours, or says which settings prevent it.

Every family of the right shape exports the config, which is then imported again. A family fits if nothing has
changed. It also fits if weights can make up for the difference: zeros for biases and token types that only the family
has, a gate whose other side is always 1, a dense layer that changes nothing, a W_q and a final norm with the factors
of the scores and of the head, or a table of embeddings that were normed already. If none fits, the nearest one is
named.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from clearhead.config.model import GATED, ModelConfig
from clearhead.errors import ConfigError
from clearhead.exchange.families.embedding_norm import without_embedding_norm
from clearhead.exchange.families.export_config import score_scale
from clearhead.exchange.families.hf_config import GATES, SEVERAL
from clearhead.exchange.families.registry import FAMILIES, config_from
from clearhead.exchange.weights.export_weights import Fill, either, new_dense, new_gate, scaled

OF_TRAINING = ("dropout", "attention_dropout", "initial_deviation", "zero_outputs")
OF_READING = ("texts",)  # which a config.json does not say
OF_VECTORS = ("pool", "unit_length")  # exported for sentence-transformers
# Settings that matter only if another has a certain value.
IDLE_UNLESS: dict[str, dict[str, tuple[str, ...]]] = {
    "positions": {
        "learned": ("position_offset",),
        "rotary": ("rotary_base", "rotary_scaling"),
        "relative": ("relative_buckets", "relative_distance"),
        "sinusoidal": ("sinusoid_layout",),
    },
    "norm": {"layer": ("norm_bias",)},
    "shape": {"encoder-decoder": ("source_vocabulary", "encoder_d", "encoder_d_ff", "shared")},
    "head": {
        "language": ("tied", "head_bias", "head_scale", "head_transform", "soft_cap"),
        "classifier": ("classes", "pool_dense", "class_bias"),
    },
}


def effective_settings(config: ModelConfig) -> dict[str, Any]:
    """Every setting that affects what a model computes, with defaults filled in."""
    settings = config.model_dump() | {
        "h_kv": config.groups,
        "d_k": config.width_k,
        "d_v": config.width_v,
        "d_ff": config.width_ff(config.d),
        "encoder_d": config.width_encoder,
        "encoder_d_ff": config.width_ff(config.width_encoder, is_encoder=True),
        "source_vocabulary": config.vocabulary_encoder,
        "encoder_norm": config.norm_encoder,
        "final_norm": config.has_final_norm,
        "shared": config.is_shared,
    }
    if config.similarity in ("scaled_dot", "dot"):  # they differ only in the scale
        settings |= {"similarity": "dot", "scale": score_scale(config)}
    idle = {*OF_TRAINING, *OF_READING, *(OF_VECTORS if config.head == "none" else OF_VECTORS[1:])}
    idle |= {"pool"} if config.head == "language" or config.labels == "each-word" else set()
    idle |= {"decoder_blocks"} if config.shape == "encoder" else set()
    idle |= {"encoder_blocks", "encoder_norm"} if config.shape == "decoder" else set()
    for key, kinds in IDLE_UNLESS.items():
        for kind, names in kinds.items():
            idle |= set(names) if settings[key] != kind else set()
    return {key: value for key, value in settings.items() if key not in idle}


@dataclass(frozen=True)
class Representation:
    """A model of ours as one of a family: its config.json, the settings that import reads from it, what differs."""

    family: str
    config: dict[str, Any]
    target: ModelConfig
    differences: dict[str, tuple[Any, Any]]  # ours and theirs
    added: dict[str, Any]  # settings of theirs for which weights make up


def choose_family(config: ModelConfig, without: Collection[str] = ()) -> Representation:
    """The first family that can represent the config; the error names the nearest one if none can."""
    nearest = nearest_family(config, without)
    if nearest is None:
        raise ConfigError(
            f"No Hugging Face architecture of shape {config.shape!r} supports d = {config.d}, h = {config.h} and "
            f"d_k = {config.width_k}.\nMake d a multiple of h, and d_k even."
        )
    if nearest.differences:
        raise ConfigError(describe_misfit(nearest))
    return nearest


def nearest_family(config: ModelConfig, without: Collection[str] = ()) -> Representation | None:
    """The family with the fewest differences; None if none has these sizes."""
    names = [
        name for name, family in FAMILIES.items() if family.shape == config.shape and name not in without
    ]
    found = [fit for name in names if (fit := represent(config, name))]
    return min(found, key=lambda made: (len(made.differences), len(made.added)), default=None)


def represent(config: ModelConfig, family: str) -> Representation | None:
    """The model as one of a family, or None if import refuses what export writes."""
    config = without_embedding_norm(config)
    # If the family lacks this feed-forward, the other settings can still be compared with another one.
    d_ff = config.width_ff(config.d)
    others = (config.replace(feedforward=kind, d_ff=d_ff) for kind in ("swiglu", "gelu"))
    for one in (config, *others):
        theirs, target = write_and_read_back(one, family)
        if target is not None:
            break
    else:
        return None
    ours, back = effective_settings(config), effective_settings(target)
    if back["context"] is None:  # no table limits it
        del back["context"]
    keys = [key for key in ours if key in back and ours[key] != back[key]]
    added = {key: back[key] for key in keys if is_addable(key, ours[key], back[key], target)}
    differences = {key: (ours[key], back[key]) for key in keys if key not in added}
    return Representation(family, theirs, target, differences, added)


def write_and_read_back(config: ModelConfig, family: str) -> tuple[dict[str, Any], ModelConfig | None]:
    """The exported config.json, and the settings that import reads from it; None if it refuses."""
    theirs = {"model_type": family} | FAMILIES[family].export_config(config)
    if config.classes is not None:
        theirs["id2label"] = {str(number): f"LABEL_{number}" for number in range(config.classes)}
    if config.labels == "several":
        theirs["problem_type"] = SEVERAL
    try:
        return theirs, config_from(theirs, config.head, [] if config.tied else ["lm_head.weight"])
    except ConfigError:
        return theirs, None


def is_addable(key: str, ours: Any, theirs: Any, target: ModelConfig) -> bool:
    """Whether weights can make up for a difference."""
    match key:
        case "scale":
            return True
        case "head_scale":
            return target.has_final_norm and not target.head_transform
        case "pool_dense":
            # z and −z of each class pass the dense layer.
            return (ours, theirs) == ("none", "gelu") and 2 * (target.classes or 0) <= target.width_top
        case "attention_bias":
            return set(ours) <= set(theirs)
        case "feedforward_bias" | "norm_bias" | "head_bias" | "class_bias":
            return theirs is True
        case "token_types":
            return ours == 0
        case "feedforward":
            return ours not in GATED and theirs == GATES.get(ours) and target.feedforward_bias
    return False


def filling(made: Representation, config: ModelConfig) -> Fill:
    """Where the numbers of a family's weights come from, for a model with these settings."""
    new = {"feedforward": new_gate, "pool_dense": new_dense}
    fill = either(*(make for key, make in new.items() if key in made.added))
    factors = {}
    if "scale" in made.added:
        queries = ".norm_q." if config.query_key_norm else ".W_q."
        factors[queries] = score_scale(config) / score_scale(made.target)
    if "head_scale" in made.added:
        last = "encoder" if config.shape == "encoder" else "decoder"
        factors[f"{last}.norm."] = config.head_scale / made.target.head_scale
    return scaled(fill, factors)


def describe_misfit(nearest: Representation) -> str:
    """The settings that the nearest family cannot represent, beside its own."""
    rows = [
        f"model.{key} = {ours!r}, but {nearest.family} has {theirs!r}"
        for key, (ours, theirs) in sorted(nearest.differences.items())
    ]
    return (
        "No Hugging Face architecture can represent this model. The nearest is "
        f"{nearest.family}, except for:\n  " + "\n  ".join(rows)
    )
