"""Reads the tokenizer of a GGUF file: its metadata enters, a tokenizer leaves if its kind is supported."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from clearhead.exchange.tokenizers.read_sentencepiece import (
    BPE,
    CONTROL,
    UNKNOWN,
    USER,
    Piece,
    SentencePieceModel,
    build_library,
)
from clearhead.exchange.tokenizers.read_vocabulary import set_template
from clearhead.text.tokenizers.fast import GPT4, QWEN
from clearhead.text.tokenizers.roles import find_roles, state_roles
from clearhead.text.tokenizers.tokenizer import Tokenizer

# The regex that splits words before byte-level BPE, by llama.cpp's name for it; None is GPT-2's.
PATTERNS: dict[str, str | None] = {
    "default": None,
    "gpt-2": None,
    "llama-bpe": GPT4,
    "llama3": GPT4,
    "llama-v3": GPT4,
    "smaug-bpe": GPT4,
    "qwen2": QWEN,
}
WITHOUT_MERGES = (
    "llama-bpe",
    "llama3",
    "llama-v3",
)  # a word that is a token stays whole, whatever the merges are


def read_gguf_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer in the metadata, or None if its kind is unsupported."""
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or kind not in ("llama", "gpt2"):
        return None
    kinds = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    library = (
        from_scores(metadata, tokens, kinds) if kind == "llama" else from_merges(metadata, tokens, kinds)
    )
    if library is None:
        return None
    keys = {"begin": "bos", "end": "eos", "padding": "padding", "unknown": "unknown"}
    ids = {role: metadata.get(f"tokenizer.ggml.{key}_token_id") for role, key in keys.items()}
    names = {role: tokens[n] for role, n in ids.items() if type(n) is int and 0 <= n < len(tokens)}
    library.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names.values()])
    if "begin" in names and metadata.get("tokenizer.ggml.add_bos_token", kind == "llama"):
        set_template(library, names["begin"], None)
    document = json.loads(library.to_str())
    return Tokenizer(json.dumps(state_roles(document, find_roles(document) | names), ensure_ascii=False))


def from_scores(metadata: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Library:
    """SentencePiece's BPE, from tokens and scores."""
    scores = metadata["tokenizer.ggml.scores"]
    rows = [Piece(*row) for row in zip(tokens, scores, kinds, strict=True)]
    spaced = metadata.get("tokenizer.ggml.add_space_prefix", True)
    return build_library(
        SentencePieceModel(rows, BPE, byte_fallback=True, prefix=bool(spaced), squeeze=False)
    )


def from_merges(metadata: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Library | None:
    """Byte-level BPE, from tokens and merges."""
    name = metadata.get("tokenizer.ggml.pre", "default")
    if name not in PATTERNS:
        return None
    known = {token: number for number, token in enumerate(tokens)}
    pairs = (tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"])
    merges = [pair for pair in pairs if "".join(pair) in known]  # llama.cpp ignores others
    library = Library(models.BPE(known, merges, ignore_merges=name in WITHOUT_MERGES))
    pattern = PATTERNS[name]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if name == "qwen2":
        library.normalizer = normalizers.NFC()
    library.pre_tokenizer = (
        level
        if pattern is None
        else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    )
    library.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (CONTROL, UNKNOWN, USER):
            library.add_tokens([AddedToken(token, special=kind != USER, normalized=False)])
    return library
