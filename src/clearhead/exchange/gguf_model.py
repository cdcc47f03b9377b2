"""GGUF files of the Llama family as models of Hugging Face: a path enters; config, weights, tokenizer leave.

llama.cpp keeps rotary pairs side by side where Hugging Face keeps them half a head apart, so in files of the
architecture `llama` the rows of W_q and W_k stand in another order; here they are put back.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library
from torch import Tensor

from clearhead.errors import CheckpointError
from clearhead.exchange.gguf_file import read_gguf
from clearhead.exchange.source import LARGEST, is_kind
from clearhead.exchange.spm import CONTROL, PAIRS, UNKNOWN, USER, Piece, Pieces, build
from clearhead.exchange.stored import Stored
from clearhead.exchange.vocabularies import frame
from clearhead.text.fast import GPT4, QWEN
from clearhead.text.roles import find_roles, state_roles
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.tokenizer_file import explained

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
# Their names without `.weight` and `.bias`, and those of Hugging Face.
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INNER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
FACTORS = "rope_freqs.weight"  # what the frequencies of the rotation are divided by
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
# How a byte-level vocabulary cuts words, by the name that llama.cpp gives it; None is GPT-2's way.
PATTERNS: dict[str, str | None] = {
    "default": None,
    "gpt-2": None,
    "llama-bpe": GPT4,
    "llama3": GPT4,
    "llama-v3": GPT4,
    "qwen2": QWEN,
}


def from_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Stored], Tokenizer | None]:
    """Config and weights as Hugging Face has them, and the tokenizer where its kind is known."""
    metadata, tensors = read_gguf(path)
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{path} holds a model of the architecture {architecture!r}.\n"
            f"GGUF files of {', '.join(ARCHITECTURES)} can be read."
        )
    config = config_of(path, metadata, tensors)
    weights = {}
    for name, stored in tensors.items():
        if name == FACTORS:
            continue
        theirs = name_of(name)
        h = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(part_of(name))
        order = unturned(config[h]) if h is not None and architecture == "llama" else None
        weights[theirs] = stored if order is None else reordered(stored, order)
    with explained(f"The tokenizer of {path} cannot be read"):
        return config, weights, tokenizer_of(metadata)


def config_of(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Stored]) -> dict[str, Any]:
    """A config of Hugging Face from the keys of a GGUF file."""
    kind = str(metadata["general.architecture"])

    def get(key: str, default: float | None = None) -> Any:
        return number_of(path, metadata, f"{kind}.{key}", default)

    table = tensors.get("token_embd.weight")
    if table is None or len(table.shape) != 2:
        raise CheckpointError(f"{path} has no table token_embd.weight.\nThe file is not complete.")
    h, d = get("attention.head_count"), get("embedding_length")
    width = get("attention.key_length", d // h)
    window = get("attention.sliding_window") if metadata.get(f"{kind}.attention.sliding_window") else None
    family = "mistral" if window and kind == "llama" else kind
    return {
        "model_type": family,
        "architectures": [ARCHITECTURES[kind]],
        "sliding_window": window,
        "vocab_size": table.shape[0],
        "max_position_embeddings": get("context_length"),
        "hidden_size": d,
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": h,
        "num_key_value_heads": get("attention.head_count_kv", h),
        "head_dim": width,
        "intermediate_size": get("feed_forward_length"),
        "rms_norm_eps": round(get("attention.layer_norm_rms_epsilon"), 12),
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_output.bias" in tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in tensors,
        "partial_rotary_factor": get("rope.dimension_count", width) / width,
        "rope_parameters": rotation_of(path, kind, metadata, tensors.get(FACTORS)),
    }


def number_of(path: Path, metadata: Mapping[str, Any], key: str, default: float | None = None) -> Any:
    """A size or a factor."""
    value = metadata.get(key, default)
    if value is None:
        raise CheckpointError(f"{path} does not say {key}.\nThe file is not complete.")
    if not is_kind(value, float) or not 0 < value < LARGEST:
        raise CheckpointError(f"{path}: {key} = {value!r:.80} should be a number above 0.")
    return value


def rotation_of(path: Path, kind: str, metadata: Mapping[str, Any], factors: Stored | None) -> dict[str, Any]:
    """The rotation; Llama 3's stretch is written as one factor for each frequency."""
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": float(number_of(path, metadata, f"{kind}.rope.freq_base", 10_000.0)),
    }
    scaling = metadata.get(f"{kind}.rope.scaling.type", "none")
    if scaling == "linear":
        factor = number_of(path, metadata, f"{kind}.rope.scaling.factor")
        rope |= {"rope_type": "linear", "factor": float(factor)}
    elif scaling != "none":
        rope["rope_type"] = str(scaling)  # refused where the config is read, by its name
    stated = torch.ones(1) if factors is None else factors.read().float()
    if not bool((stated == 1).all()):
        stretched = rope | LLAMA3 | {"rope_type": "llama3", "factor": float(stated.max())}
        if stated.ndim != 1 or not torch.allclose(stated, stretch(stretched, len(stated)), rtol=1e-3):
            raise CheckpointError(
                f"{path}: {FACTORS} is not the stretch of Llama 3, and no other is known here.\n"
                "Import the model's safetensors."
            )
        rope = stretched
    return rope


def stretch(rope: Mapping[str, Any], count: int) -> Tensor:
    """What Llama 3 divides each frequency by: 1 where it turns fast, the factor where it turns slowly."""
    turns = rope["original_max_position_embeddings"] * rope["rope_theta"] ** (
        -torch.arange(count, dtype=torch.double) / count
    )
    turns = turns / (2 * torch.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).float()


def part_of(name: str) -> str:
    """The part of a block that a tensor belongs to."""
    return name.split(".")[2] if name.startswith("blk.") and name.count(".") == 3 else ""


def name_of(name: str) -> str:
    """Hugging Face's name of a tensor; an unknown one is kept, to be refused by its name."""
    stem, _, ending = name.rpartition(".")
    if stem in OUTER:
        return f"{OUTER[stem]}.{ending}"
    if part_of(name) in INNER:
        return f"model.layers.{name.split('.')[1]}.{INNER[part_of(name)]}.{ending}"
    return name


def unturned(h: int) -> Callable[[Tensor], Tensor]:
    """Rows (h, d_k / 2, 2) of neighbours become rows (h, 2, d_k / 2) of halves."""

    def order(X: Tensor) -> Tensor:
        return X.view(h, X.shape[0] // h // 2, 2, *X.shape[1:]).transpose(1, 2).reshape(X.shape)

    return order


def reordered(stored: Stored, order: Callable[[Tensor], Tensor]) -> Stored:
    """A tensor whose rows are put in another order when it is read."""
    return replace(stored, read=lambda: order(stored.read()), span=None)


def tokenizer_of(metadata: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer in the metadata, or None where its kind is not known."""
    kind, pieces = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if not isinstance(pieces, list) or kind not in ("llama", "gpt2"):
        return None
    kinds = metadata.get("tokenizer.ggml.token_type") or [1] * len(pieces)
    library = (
        from_scores(metadata, pieces, kinds) if kind == "llama" else from_merges(metadata, pieces, kinds)
    )
    if library is None:
        return None
    keys = {"begin": "bos", "end": "eos", "padding": "padding", "unknown": "unknown"}
    numbers = {role: metadata.get(f"tokenizer.ggml.{key}_token_id") for role, key in keys.items()}
    names = {role: pieces[n] for role, n in numbers.items() if type(n) is int and 0 <= n < len(pieces)}
    library.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names.values()])
    if "begin" in names and metadata.get("tokenizer.ggml.add_bos_token", kind == "llama"):
        frame(library, names["begin"], None)
    document = json.loads(library.to_str())
    return Tokenizer(json.dumps(state_roles(document, find_roles(document) | names), ensure_ascii=False))


def from_scores(metadata: Mapping[str, Any], pieces: list[str], kinds: list[int]) -> Library:
    """SentencePiece's BPE, of pieces and scores."""
    scores = metadata["tokenizer.ggml.scores"]
    rows = [Piece(*row) for row in zip(pieces, scores, kinds, strict=True)]
    spaced = metadata.get("tokenizer.ggml.add_space_prefix", True)
    return build(Pieces(rows, PAIRS, byte_fallback=True, prefix=bool(spaced), squeeze=False))


def from_merges(metadata: Mapping[str, Any], pieces: list[str], kinds: list[int]) -> Library | None:
    """Byte-level BPE, of pieces and merges."""
    way = metadata.get("tokenizer.ggml.pre", "default")
    if way not in PATTERNS:
        return None
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    library = Library(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
    pattern = PATTERNS[way]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if way == "qwen2":
        library.normalizer = normalizers.NFC()
    library.pre_tokenizer = (
        level
        if pattern is None
        else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    )
    library.decoder = decoders.ByteLevel()
    for piece, kind in zip(pieces, kinds, strict=True):
        if kind in (CONTROL, UNKNOWN, USER):
            library.add_tokens([AddedToken(piece, special=kind != USER, normalized=False)])
    return library
