"""llama.cpp's names of tensors and Hugging Face's: one table for each architecture of GGUF files, read both ways."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.exchange.weights.read import StoredTensor


@dataclass(frozen=True)
class GgufArchitecture:
    """An architecture of llama.cpp: its class in `transformers`, and the stems of its names, llama.cpp's first."""

    hf_class: str
    outer: Mapping[str, str]
    inner: Mapping[str, str]  # in block i: blk.i.STEM
    blocks: str = "model.layers"
    transposed: frozenset[str] = frozenset()  # matrices that are (in, out) in Hugging Face's files
    has_pairs: bool = False  # rotary pairs are side by side, not half a head apart

    def hf_name(self, name: str) -> str:
        """Hugging Face's name of a tensor; an unknown one is kept, and refused by name later."""
        stem, _, ending = name.rpartition(".")
        if stem in self.outer:
            return f"{self.outer[stem]}.{ending}"
        if block_part(name) in self.inner:
            return f"{self.blocks}.{name.split('.')[1]}.{self.inner[block_part(name)]}.{ending}"
        return name

    def gguf_name(self, name: str) -> str:
        """llama.cpp's name of one of Hugging Face's tensors."""
        stem, _, ending = name.rpartition(".")
        outer = {theirs: ours for ours, theirs in self.outer.items()}
        if stem in outer:
            return f"{outer[stem]}.{ending}"
        number, _, part = stem.removeprefix(f"{self.blocks}.").partition(".")
        return f"blk.{number}.{ {theirs: ours for ours, theirs in self.inner.items()}[part] }.{ending}"


LLAMA_OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LLAMA_INNER = {
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
GPT2_OUTER = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
}
GPT2_INNER = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
MATRICES_OF_GPT2 = frozenset({"attn_qkv", "attn_output", "ffn_up", "ffn_down"})

# By `general.architecture`. Export chooses the first that fits best.
ARCHITECTURES = {
    "llama": GgufArchitecture("LlamaForCausalLM", LLAMA_OUTER, LLAMA_INNER, has_pairs=True),
    "qwen2": GgufArchitecture("Qwen2ForCausalLM", LLAMA_OUTER, LLAMA_INNER),
    "qwen3": GgufArchitecture("Qwen3ForCausalLM", LLAMA_OUTER, LLAMA_INNER),
    "gpt2": GgufArchitecture(
        "GPT2LMHeadModel", GPT2_OUTER, GPT2_INNER, "transformer.h", transposed=MATRICES_OF_GPT2
    ),
}


def block_part(name: str) -> str:
    """The part of a block to which a tensor with one of llama.cpp's names belongs."""
    return name.split(".")[2] if name.startswith("blk.") and name.count(".") == 3 else ""


def pairs_to_halves(h: int) -> Callable[[Tensor], Tensor]:
    """Reorders rows from rotary pairs (h, d_k / 2, 2) to halves (h, 2, d_k / 2)."""

    def order(X: Tensor) -> Tensor:
        return X.view(h, X.shape[0] // h // 2, 2, *X.shape[1:]).transpose(1, 2).reshape(X.shape)

    return order


def halves_to_pairs(h: int) -> Callable[[Tensor], Tensor]:
    """Reorders rows from rotary halves (h, 2, d_k / 2) to pairs (h, d_k / 2, 2)."""

    def order(X: Tensor) -> Tensor:
        return X.view(h, 2, X.shape[0] // h // 2, *X.shape[1:]).transpose(1, 2).reshape(X.shape)

    return order


def reordered(stored: StoredTensor, order: Callable[[Tensor], Tensor]) -> StoredTensor:
    """A tensor whose rows are reordered when it is read."""
    return replace(stored, read=lambda: order(stored.read()))


def transposed(stored: StoredTensor) -> StoredTensor:
    """A matrix transposed when it is read; a vector is unchanged."""
    if len(stored.shape) != 2:
        return stored
    return replace(stored, shape=torch.Size(stored.shape[::-1]), read=lambda: stored.read().t())
