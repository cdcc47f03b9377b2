"""Reads the tokenizer of a GGUF file: its metadata enters, a tokenizer leaves.

llama.cpp normalises no text, so the tokenizer does not either.
"""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Library

from clearhead.errors import TokenizerError
from clearhead.exchange.tokenizers.chat_template import named_default, with_template
from clearhead.exchange.tokenizers.gguf_splits import LIKE_LLAMA_3, find_splits, pre_tokenizer_of
from clearhead.exchange.tokenizers.read_sentencepiece import (
    BPE,
    CONTROL,
    UNKNOWN,
    USER,
    Piece,
    SentencePieceModel,
    build_library,
)
from clearhead.text.tokenizers.roles import find_roles, framing_processor, state_roles
from clearhead.text.tokenizers.tokenizer import Tokenizer

GGUF_KEYS = {"begin": "bos", "end": "eos", "padding": "padding", "unknown": "unknown"}


def read_gguf_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer in the metadata; None if it has none, and refused if its kind is unsupported."""
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if kind in (None, "none", "no_vocab") or not isinstance(tokens, list):
        return None
    kinds = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    name = metadata.get("tokenizer.ggml.pre", "default")
    if kind == "llama":
        library = from_scores(metadata, tokens, kinds)
    elif kind == "gpt2":
        library = from_merges(metadata, tokens, kinds, name)
    else:
        raise TokenizerError(
            f"it is of the kind {kind!r:.60}; llama (SentencePiece) and gpt2 (byte-level BPE) are supported.\n"
            "Import the model's folder of safetensors, or this file with --no-tokenizer"
        )
    ids: dict[str, Any] = {
        role: metadata.get(f"tokenizer.ggml.{key}_token_id") for role, key in GGUF_KEYS.items()
    }
    names = {role: tokens[n] for role, n in ids.items() if type(n) is int and 0 <= n < len(tokens)}
    library.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names.values()])
    flags = {"begin": kind == "llama" or name in LIKE_LLAMA_3, "end": False}
    added = {role: metadata.get(f"tokenizer.ggml.add_{GGUF_KEYS[role]}_token", flags[role]) for role in flags}
    before, after = ({names[role]: int(ids[role])} if added[role] and role in names else {} for role in flags)
    document = json.loads(library.to_str()) | {"post_processor": framing_processor(before, after)}
    stated = json.dumps(state_roles(document, find_roles(document) | names), ensure_ascii=False)
    return with_template(Tokenizer(stated), named_default(metadata.get("tokenizer.chat_template")))


def from_scores(metadata: Mapping[str, Any], tokens: list[str], kinds: list[int]) -> Library:
    """SentencePiece's BPE, from tokens and scores."""
    scores = metadata["tokenizer.ggml.scores"]
    rows = [Piece(*row) for row in zip(tokens, scores, kinds, strict=True)]
    spaced = metadata.get("tokenizer.ggml.add_space_prefix", True)
    return build_library(
        SentencePieceModel(rows, BPE, byte_fallback=True, prefix=bool(spaced), squeeze=False)
    )


def from_merges(metadata: Mapping[str, Any], tokens: list[str], kinds: list[int], name: object) -> Library:
    """Byte-level BPE, from tokens and merges, after the split of this name."""
    splits = find_splits(name)
    known = {token: number for number, token in enumerate(tokens)}
    pairs = (tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"])
    merges = [pair for pair in pairs if "".join(pair) in known]  # llama.cpp ignores others
    library = Library(models.BPE(known, merges, ignore_merges=name in LIKE_LLAMA_3))
    library.pre_tokenizer = pre_tokenizer_of(splits)
    library.decoder = decoders.ByteLevel()
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (CONTROL, UNKNOWN, USER):
            library.add_tokens([AddedToken(token, special=kind != USER, normalized=False)])
    return library
