"""Chooses llama.cpp's architecture for a model of ours: settings enter; the keys of a GGUF file and its tensors leave.

The graphs of llama.cpp have fewer settings than the families of `transformers`: one activation each, no window, no
scale but 1/√d_k. A model with relu² has no such graph, but silu comes as near to it as one likes:

    silu(s a) · a / s = a² σ(s a) → relu(a)²        at most 0.54 / s² away, for any a

So W_1 becomes both sides of a gate, and s goes into the gate and the norm before it. A power of two rounds nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from clearhead.config.model import ModelConfig
from clearhead.errors import ConfigError
from clearhead.exchange.families.choose_family import Representation, filling, represent
from clearhead.exchange.families.export_config import rope_parameters, score_scale
from clearhead.exchange.families.gguf_names import (
    ARCHITECTURES,
    block_part,
    halves_to_pairs,
    reordered,
    transposed,
)
from clearhead.exchange.families.import_gguf import FACTORS, llama3_divisors
from clearhead.exchange.weights.export_weights import Fill, Filling, either
from clearhead.exchange.weights.read import StoredTensor
from clearhead.exchange.weights.write_gguf import NumberType, Value

# s above: as sharp as float32 allows, and such that s² W_1 stays within float16.
SHARPNESS: dict[NumberType, float] = {"float32": 2.0**13, "float16": 2.0**6, "q8_0": 2.0**6}


@dataclass(frozen=True)
class LlamaCppModel:
    """A model of ours as llama.cpp runs it."""

    architecture: str
    made: Representation
    filling: Fill  # where the numbers of its weights come from, but for relu²
    is_squared: bool  # relu² became a sharp silu
    notes: tuple[str, ...] = ()

    def fill(self, kind: NumberType) -> Fill:
        """Where the numbers of its weights come from."""
        return either(sharp_gate(SHARPNESS[kind]), self.filling) if self.is_squared else self.filling


def choose_architecture(config: ModelConfig) -> LlamaCppModel:
    """The first architecture of llama.cpp that can represent the config; the error names the nearest if none can."""
    if config.shape != "decoder" or config.head != "language":
        raise ConfigError(
            f"Only language models can be exported to GGUF; this is {config.shape} with head {config.head!r}.\n"
            "Export a folder for transformers: clearhead export MODEL FOLDER."
        )
    is_squared = config.feedforward == "relu2"
    wanted, notes = without_window(config)
    if is_squared:
        wanted = wanted.replace(feedforward="swiglu", d_ff=config.width_ff(config.d))
        notes = (*notes, "relu² is written as a sharp silu, with a third matrix per feed-forward")
    found = [made for name in ARCHITECTURES if (made := represent(wanted, name))]
    if not found:
        raise ConfigError(
            f"No architecture of llama.cpp has d = {config.d}, h = {config.h} and d_k = {config.width_k}.\n"
            "Make d a multiple of h, and d_k even."
        )
    # Additions matter only between architectures that fit.
    nearest = min(found, key=lambda made: (len(misfits(made)), 0 if misfits(made) else len(made.added)))
    if rows := misfits(nearest):
        lines = [
            f"model.{key} = {getattr(config, key)!r}, but there it is {rows[key]!r}" for key in sorted(rows)
        ]
        raise ConfigError(
            f"llama.cpp cannot run this model. Its nearest architecture is {nearest.family}, except for:\n  "
            + "\n  ".join(lines)
            + "\nTrain with these settings, or export a folder for transformers."
        )
    return LlamaCppModel(nearest.family, nearest, filling(nearest, wanted), is_squared, notes)


def without_window(config: ModelConfig) -> tuple[ModelConfig, tuple[str, ...]]:
    """The same model for texts no longer than its window, since these graphs have none."""
    if config.window is None:
        return config, ()
    context = min(config.window, config.context or config.window)
    shorter = config.replace(window=None, context=context)
    return shorter, (f"llama.cpp's graph has no window of {config.window}: the context becomes {context}",)


def misfits(made: Representation) -> dict[str, object]:
    """The settings that differ in llama.cpp, and their values there."""
    found: dict[str, object] = {key: theirs for key, (_, theirs) in made.differences.items()}
    target, is_gpt2 = made.target, made.family == "gpt2"
    activation = "gelu_tanh" if is_gpt2 else "swiglu"
    if target.feedforward != activation:
        found["feedforward"] = activation
    if score_scale(target) != target.width_k**-0.5:
        found["scale"] = target.width_k**-0.5
    if made.family == "qwen3" and "o" in target.attention_bias:
        found["attention_bias"] = ""
    if made.family == "qwen2" and target.width_k * target.h != target.d:
        found["d_k"] = target.d // target.h
    scaling = target.rotary_scaling
    if made.family != "llama" and scaling is not None and scaling.kind == "llama3":
        found["rotary_scaling"] = None
    return found


def sharp_gate(s: float) -> Fill:
    """A feed-forward with relu² as a gate with silu: the norm is divided by s, the gate multiplied by s²."""

    def fill(name: str) -> Filling:
        if name.endswith(".add_ffn.norm.weight"):
            return Filling(name, 1 / s)
        if ".ffn.W_g." in name:
            return Filling(name.replace(".W_g.", ".W_1."), s if name.endswith("bias") else s * s)
        return Filling(name, 1 / s if name.endswith(".ffn.W_1.bias") else 1.0)

    return fill


def gguf_metadata(architecture: str, config: ModelConfig) -> dict[str, Value]:
    """The keys that state an architecture and its sizes."""
    keys: dict[str, Value] = {
        "vocab_size": config.vocabulary,
        "context_length": config.context or 1 << 20,
        "embedding_length": config.d,
        "block_count": config.decoder_blocks,
        "feed_forward_length": config.width_ff(config.d),
        "attention.head_count": config.h,
        "attention.head_count_kv": config.groups,
    }
    if architecture == "gpt2":
        keys |= {"attention.layer_norm_epsilon": config.norm_epsilon}
    else:
        keys |= {
            "attention.key_length": config.width_k,
            "attention.value_length": config.width_k,
            "attention.layer_norm_rms_epsilon": config.norm_epsilon,
            "rope.dimension_count": config.width_k,
            "rope.freq_base": config.rotary_base,
            **scaling_keys(config),
        }
    stated = {f"{architecture}.{key}": value for key, value in keys.items()}
    return {"general.architecture": architecture, "general.quantization_version": 2, **stated}


def scaling_keys(config: ModelConfig) -> dict[str, Value]:
    """How rotary angles are stretched; Llama 3's way is a tensor, and a factor beside it would be applied too."""
    scaling = config.rotary_scaling
    if scaling is None:
        return {}
    if scaling.kind == "linear":
        return {"rope.scaling.type": "linear", "rope.scaling.factor": scaling.factor}
    return {
        "rope.scaling.original_context_length": int(
            rope_parameters(config)["original_max_position_embeddings"]
        )
    }


def gguf_tensors(
    architecture: str, config: ModelConfig, tensors: Mapping[str, StoredTensor]
) -> dict[str, StoredTensor]:
    """Hugging Face's tensors under llama.cpp's names and in its layouts."""
    names, found = ARCHITECTURES[architecture], {}
    heads = {"attn_q": config.h, "attn_k": config.groups} if names.has_pairs else {}
    for theirs, stored in tensors.items():
        name = names.gguf_name(theirs)
        part = block_part(name)
        if part in heads:
            stored = reordered(stored, halves_to_pairs(heads[part]))
        found[name] = transposed(stored) if part in names.transposed else stored
    if config.rotary_scaling is not None and config.rotary_scaling.kind == "llama3":
        divisors = llama3_divisors(rope_parameters(config), config.width_k // 2)
        found[FACTORS] = StoredTensor(divisors.shape, divisors.dtype, lambda: divisors)
    return found
