"""Writes a SentencePiece tokenizer for llama.cpp: a `tokenizer.json` of such BPE enters; scores and kinds leave.

llama.cpp merges the neighbours whose merged piece has the highest score. A `tokenizer.json` has a list of merges
instead; the two are the same if each piece has all of its ways to be split in two in the list, one after the other.
"""

from clearhead.exchange.tokenizers.read_sentencepiece import (
    BPE,
    BYTE,
    NORMAL,
    SPACE,
    UNKNOWN,
    Piece,
    SentencePieceModel,
    merges_of,
)
from clearhead.text.tokenizers.pieces import fallback_byte
from clearhead.text.tokenizers.roles import Document

MARK = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
PREFIX_MARK = {"type": "Prepend", "prepend": SPACE}


def space_prefix(document: Document) -> bool | None:
    """Whether a space is put before a text; None if this is no SentencePiece tokenizer that llama.cpp has."""
    model, normalizer, words = (document.get(key) or {} for key in ("model", "normalizer", "pre_tokenizer"))
    if model.get("type") != "BPE" or not model.get("byte_fallback"):
        return None
    steps = normalizer.get("normalizers", [normalizer] if normalizer else [])
    if not words and steps in ([MARK], [PREFIX_MARK, MARK]):
        return PREFIX_MARK in steps
    is_marking = words.get("type") == "Metaspace" and words.get("replacement") == SPACE
    if not steps and is_marking and not words.get("split"):
        return bool(words.get("prepend_scheme") != "never")
    return None


def piece_kinds(document: Document, names: list[str], kinds: list[int]) -> list[int]:
    """The kinds of tokens, of which bytes and the unknown token have their own."""
    unknown = document["model"].get("unk_token")
    return [
        UNKNOWN if name == unknown else BYTE if kind == NORMAL and fallback_byte(name) is not None else kind
        for name, kind in zip(names, kinds, strict=True)
    ]


def piece_scores(document: Document, names: list[str], kinds: list[int]) -> list[float] | None:
    """A score for every token by the order of its merges; None if no scores say the same as the merges."""
    listed = document["model"]["merges"]
    merges = [tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in listed]
    rank: dict[str, int] = {}
    for pair in merges:
        rank.setdefault("".join(pair), len(rank))
    scores = [-float(rank.get(name, len(names))) for name in names]
    pieces = [Piece(*row) for row in zip(names, scores, kinds, strict=True)]
    again = merges_of(SentencePieceModel(pieces, BPE, byte_fallback=True, squeeze=False))
    is_same = {*again} == {*merges} and [*map("".join, again)] == [*map("".join, merges)]
    return scores if is_same else None
