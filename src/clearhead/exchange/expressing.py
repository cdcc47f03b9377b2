"""Which family of Hugging Face can say what a model of ours is, and what stands in the way where none can.

Every family of the right shape writes the settings down in its words, and these are read back. A family fits
where nothing has changed. It also fits where it only has more, and numbers can stand for that: biases and
segments of zeros, or a gate whose other side is always 1. Otherwise the nearest one is named.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from clearhead.config.model import GATED, ModelConfig
from clearhead.errors import ConfigError
from clearhead.exchange.families import config_from
from clearhead.exchange.inverse import INVERSES, scale_of
from clearhead.exchange.source import GATES

BY_SHAPE = {  # the first that fits is taken
    "decoder": ("llama", "mistral", "qwen2", "qwen3", "gpt2"),
    "encoder": ("bert", "roberta", "distilbert"),
    "encoder-decoder": ("marian", "t5"),
}
OF_TRAINING = ("dropout", "attention_dropout", "initial_deviation", "zero_outputs")
OF_VECTORS = ("pool", "unit_length")  # written for sentence-transformers
# Settings that mean something only where another has a certain value.
IDLE_UNLESS: dict[str, dict[str, tuple[str, ...]]] = {
    "positions": {
        "learned": ("position_offset",),
        "rotary": ("rotary_base", "rotary_scaling"),
        "relative": ("relative_buckets", "relative_distance"),
        "sinusoidal": ("sinusoid_layout",),
    },
    "norm": {"layer": ("norm_bias",)},
    "shape": {"encoder-decoder": ("source_vocabulary", "encoder_d", "shared")},
    "head": {
        "language": ("tied", "head_bias", "head_scale", "head_transform", "soft_cap"),
        "classifier": ("classes", "pool_dense", "class_bias"),
    },
}


def essence(config: ModelConfig) -> dict[str, Any]:
    """What a model computes: every setting that matters, with what was left open filled in."""
    settings = config.model_dump() | {
        "h_kv": config.groups,
        "d_k": config.width_k,
        "d_v": config.width_v,
        "d_ff": config.width_ff(config.d),
        "encoder_d": config.width_encoder,
        "source_vocabulary": config.vocabulary_encoder,
        "encoder_norm": config.norm_encoder,
        "final_norm": config.has_final_norm,
        "shared": config.is_shared,
    }
    if config.similarity in ("scaled_dot", "dot"):  # the same but for the scale
        settings |= {"similarity": "dot", "scale": scale_of(config)}
    idle = {*OF_TRAINING, *(OF_VECTORS if config.head == "none" else OF_VECTORS[1:])}
    idle |= {"pool"} if config.head == "language" else set()
    idle |= {"decoder_blocks"} if config.shape == "encoder" else set()
    idle |= {"encoder_blocks", "encoder_norm"} if config.shape == "decoder" else set()
    for key, kinds in IDLE_UNLESS.items():
        for kind, names in kinds.items():
            idle |= set(names) if settings[key] != kind else set()
    return {key: value for key, value in settings.items() if key not in idle}


@dataclass(frozen=True)
class Expression:
    """A model of ours as one of a family: their config, what it says in our settings, and what differs."""

    family: str
    config: dict[str, Any]
    target: ModelConfig
    differences: dict[str, tuple[Any, Any]]  # ours and theirs
    added: dict[str, Any]  # settings that only theirs has, for which numbers stand


def express(config: ModelConfig, without: Collection[str] = ()) -> Expression:
    """The family that can say it; refused with the nearest one where none can."""
    names = [name for name in BY_SHAPE[config.shape] if name not in without]
    found = [made for name in names if (made := expressed(config, name))]
    if not found:
        raise ConfigError(
            f"No family of Hugging Face has a model of shape {config.shape!r} with d = {config.d}, h = "
            f"{config.h} and d_k = {config.width_k}.\nThere d is a multiple of h, and d_k is even."
        )
    nearest = min(found, key=lambda made: (len(made.differences), len(made.added)))
    if nearest.differences:
        raise ConfigError(why_not(nearest))
    return nearest


def expressed(config: ModelConfig, family: str) -> Expression | None:
    """The model in the words of one family, or None where these cannot even be read."""
    # Where its feed-forward is not known there, the rest can still be compared with another one.
    d_ff = config.width_ff(config.d)
    others = (config.replace(feedforward=kind, d_ff=d_ff) for kind in ("swiglu", "gelu"))
    for one in (config, *others):
        theirs, target = in_words(one, family)
        if target is not None:
            break
    else:
        return None
    ours, back = essence(config), essence(target)
    keys = [key for key in ours if key in back and ours[key] != back[key]]
    added = {key: back[key] for key in keys if is_addable(key, ours[key], back[key], target)}
    differences = {key: (ours[key], back[key]) for key in keys if key not in added}
    return Expression(family, theirs, target, differences, added)


def in_words(config: ModelConfig, family: str) -> tuple[dict[str, Any], ModelConfig | None]:
    """Their config, and what it says when it is read back; nothing where it cannot be read."""
    theirs = {"model_type": family} | INVERSES[family](config)
    if config.classes is not None:
        theirs["id2label"] = {str(number): f"LABEL_{number}" for number in range(config.classes)}
    try:
        return theirs, config_from(theirs, config.head, [] if config.tied else ["lm_head.weight"])
    except ConfigError:
        return theirs, None


def is_addable(key: str, ours: Any, theirs: Any, target: ModelConfig) -> bool:
    """Whether numbers can stand for what only theirs has."""
    match key:
        case "attention_bias":
            return set(ours) <= set(theirs)
        case "feedforward_bias" | "norm_bias" | "head_bias" | "class_bias":
            return theirs is True
        case "token_types":
            return ours == 0
        case "feedforward":
            return ours not in GATED and theirs == GATES.get(ours) and target.feedforward_bias
    return False


def why_not(nearest: Expression) -> str:
    """The settings that no family has, beside what the nearest one has in their place."""
    rows = [
        f"model.{key} = {ours!r}, where {nearest.family} has {theirs!r}"
        for key, (ours, theirs) in sorted(nearest.differences.items())
    ]
    return (
        "No family of Hugging Face can say what this model is. The nearest is "
        f"{nearest.family}; these stand in the way:\n  " + "\n  ".join(rows)
    )
