"""GGUF files as Hugging Face models: a path enters; config.json, weights and tokenizer leave.

llama.cpp stores rotary pairs side by side, Hugging Face half a head apart, so in files of the architecture `llama`
the rows of W_q and W_k are in another order; here it is restored.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.errors import ModelFolderError
from clearhead.exchange.families.gguf_names import (
    ARCHITECTURES,
    block_part,
    pairs_to_halves,
    reordered,
    transposed,
)
from clearhead.exchange.families.hf_config import LARGEST, is_kind
from clearhead.exchange.tokenizers.read_gguf import read_gguf_tokenizer
from clearhead.exchange.weights.read import StoredTensor
from clearhead.exchange.weights.read_gguf import read_gguf
from clearhead.text.tokenizers.file import explained
from clearhead.text.tokenizers.tokenizer import Tokenizer

FACTORS = "rope_freqs.weight"  # divisors of the rotary frequencies
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}  # GGUF files state neither


def from_gguf(
    path: Path, has_tokenizer: bool = True
) -> tuple[dict[str, Any], dict[str, StoredTensor], Tokenizer | None]:
    """Config and weights under Hugging Face's names, and the tokenizer if it is wanted and exists."""
    metadata, tensors = read_gguf(path)
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise ModelFolderError(
            f"{path} contains a model of the architecture {architecture!r}, which is unsupported.\n"
            f"Supported in GGUF files: {', '.join(ARCHITECTURES)}."
        )
    config = config_of(path, metadata, tensors)
    names = ARCHITECTURES[architecture]
    weights = {}
    for name, stored in tensors.items():
        if name == FACTORS:
            continue
        part = block_part(name)
        h = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(part)
        if h is not None and names.has_pairs:
            stored = reordered(stored, pairs_to_halves(config[h]))
        weights[names.hf_name(name)] = transposed(stored) if part in names.transposed else stored
    with explained(f"The tokenizer of {path} cannot be read"):
        return config, weights, read_gguf_tokenizer(metadata) if has_tokenizer else None


def config_of(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, StoredTensor]) -> dict[str, Any]:
    """The config.json that corresponds to the metadata of a GGUF file."""
    kind = str(metadata["general.architecture"])

    def get(key: str, default: float | None = None) -> Any:
        return number_of(path, metadata, f"{kind}.{key}", default)

    table = tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise ModelFolderError(f"{path} has no table token_embd.weight.\nThe file is incomplete.")
    h, d = get("attention.head_count"), get("embedding_length")
    shared = {
        "architectures": [ARCHITECTURES[kind].hf_class],
        "vocab_size": table.shape[0],
        "tie_word_embeddings": "output.weight" not in tensors,
    }
    if kind == "gpt2":
        return shared | gpt2_settings(get)
    width = get("attention.key_length", d // h)
    window = get("attention.sliding_window") if metadata.get(f"{kind}.attention.sliding_window") else None
    family = "mistral" if window and kind == "llama" else kind
    return shared | {
        "model_type": family,
        "sliding_window": window,
        "max_position_embeddings": get("context_length"),
        "hidden_size": d,
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": h,
        "num_key_value_heads": get("attention.head_count_kv", h),
        "head_dim": width,
        "intermediate_size": get("feed_forward_length"),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"),
        "attention_bias": "blk.0.attn_output.bias" in tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in tensors,
        "partial_rotary_factor": get("rope.dimension_count", width) / width,
        "rope_parameters": rotation_of(path, kind, metadata, tensors.get(FACTORS)),
    }


def gpt2_settings(get: Callable[[str], Any]) -> dict[str, Any]:
    """What only the config.json of a GPT-2 has."""
    return {
        "model_type": "gpt2",
        "n_positions": get("context_length"),
        "n_embd": get("embedding_length"),
        "n_layer": get("block_count"),
        "n_head": get("attention.head_count"),
        "n_inner": get("feed_forward_length"),
        "layer_norm_epsilon": get("attention.layer_norm_epsilon"),
    }


def number_of(path: Path, metadata: Mapping[str, Any], key: str, default: float | None = None) -> Any:
    """A size or a factor."""
    value = metadata.get(key, default)
    if value is None:
        raise ModelFolderError(f"{path} lacks {key}.\nThe file is incomplete.")
    if not is_kind(value, float) or not 0 < value < LARGEST:
        raise ModelFolderError(f"{path}: {key} = {value!r:.80} must be a number above 0.")
    # Files have float32; the shortest decimal that rounds to it is the number that was meant.
    return float(str(np.float32(value))) if isinstance(value, float) else value


def rotation_of(
    path: Path, kind: str, metadata: Mapping[str, Any], factors: StoredTensor | None
) -> dict[str, Any]:
    """The rotary parameters; GGUF stores the scaling of Llama 3 as one factor per frequency."""
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": float(number_of(path, metadata, f"{kind}.rope.freq_base", 10_000.0)),
    }
    scaling = metadata.get(f"{kind}.rope.scaling.type", "none")
    if scaling == "linear":
        factor = number_of(path, metadata, f"{kind}.rope.scaling.factor")
        rope |= {"rope_type": "linear", "factor": float(factor)}
    elif scaling != "none":
        rope["rope_type"] = str(scaling)  # refused by name when the config is read
    stated = torch.ones(1) if factors is None else factors.read().float()
    if not bool((stated == 1).all()):
        length = number_of(path, metadata, f"{kind}.rope.scaling.original_context_length", 8192)
        known = LLAMA3 | {"original_max_position_embeddings": length}
        scaled = rope | known | {"rope_type": "llama3", "factor": float(stated.max())}
        if stated.ndim != 1 or not torch.allclose(stated, llama3_divisors(scaled, len(stated)), rtol=1e-3):
            raise ModelFolderError(
                f"{path}: {FACTORS} is not the rotary scaling of Llama 3, and no other is supported.\n"
                "Import the model's safetensors."
            )
        rope = scaled
    return rope


def llama3_divisors(rope: Mapping[str, Any], count: int) -> Tensor:
    """What Llama 3 divides each rotary frequency by: 1 for high ones, the factor for low ones."""
    turns = rope["original_max_position_embeddings"] * rope["rope_theta"] ** (
        -torch.arange(count, dtype=torch.double) / count
    )
    turns = turns / (2 * torch.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).float()
