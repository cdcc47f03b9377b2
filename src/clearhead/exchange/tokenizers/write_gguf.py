"""Writes a tokenizer for llama.cpp: a tokenizer of ours enters; keys of a GGUF file leave, and what will differ there.

llama.cpp has byte-level BPE ("gpt2") after one of the splits into words that it knows by name, and SentencePiece's BPE
("llama"). It normalises nothing.
"""

import json
from typing import Any

from clearhead.config.model import ModelConfig
from clearhead.errors import TokenizerError
from clearhead.exchange.tokenizers.chat_template import chat_template
from clearhead.exchange.tokenizers.gguf_splits import LIKE_LLAMA_3, SPLITS, splits_of
from clearhead.exchange.tokenizers.read_sentencepiece import CONTROL, NORMAL, UNUSED, USER
from clearhead.exchange.tokenizers.write import framed_document
from clearhead.exchange.tokenizers.write_gguf_pieces import piece_kinds, piece_scores, space_prefix
from clearhead.exchange.weights.write_gguf import Value
from clearhead.text.tokenizers.fast import GPT2
from clearhead.text.tokenizers.roles import Document, find_framing
from clearhead.text.tokenizers.tokenizer import Tokenizer

GGML = "tokenizer.ggml."
# No separator: llama-cpp-python would put it after every prompt.
KEYS_OF_ROLES = {"end": "eos", "padding": "padding", "unknown": "unknown"}
UNLIKE_BPE = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


def gguf_tokenizer(tokenizer: Tokenizer | None, config: ModelConfig) -> tuple[dict[str, Value], list[str]]:
    """The keys of a tokenizer, and notes on what llama.cpp does differently."""
    if tokenizer is None:
        return {f"{GGML}model": "none"}, ["no tokenizer in the model folder: llama.cpp can only read ids"]
    document = json.loads(tokenizer.document)
    names, kinds = tokens_of(tokenizer, config.vocabulary)
    keys = piece_keys(document, names, kinds) or pair_keys(document, names, kinds)
    for role, key in KEYS_OF_ROLES.items():
        number = getattr(tokenizer.specials, role)
        keys |= {} if number is None else {f"{key}_token_id": number}
    keys |= frame_keys(tokenizer, config)
    template = chat_template(tokenizer)
    stated = {f"{GGML}{key}": value for key, value in keys.items()}
    return stated | ({} if template is None else {"tokenizer.chat_template": template}), notes_on(document)


def piece_keys(document: Document, names: list[str], kinds: list[int]) -> dict[str, Value] | None:
    """The keys of SentencePiece's BPE; None for any other tokenizer."""
    has_prefix = space_prefix(document)
    kinds = piece_kinds(document, names, kinds)
    scores = None if has_prefix is None else piece_scores(document, names, kinds)
    if has_prefix is None or scores is None:
        return None
    return {
        "model": "llama",
        "pre": "default",
        "tokens": names,
        "scores": scores,
        "token_type": kinds,
        "add_space_prefix": has_prefix,
    }


def pair_keys(document: Document, names: list[str], kinds: list[int]) -> dict[str, Value]:
    """The keys of byte-level BPE; refused if the tokenizer is of another kind."""
    pre = pre_tokenizer_name(document)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in document["model"]["merges"]]
    return {
        "model": "gpt2",
        "pre": pre,
        "tokens": names,
        "token_type": kinds,
        # The key must exist; two tokens that no text is split into are never side by side.
        "merges": merges or [f"{names[0]} {names[0]}"],
    }


def pre_tokenizer_name(document: Document) -> str:
    """llama.cpp's name for the split into words; refused if the tokenizer is of another kind."""
    model = document["model"]
    if model.get("type") != "BPE" or any(model.get(key) for key in UNLIKE_BPE):
        raise TokenizerError(
            f"llama.cpp has no tokenizer of this kind ({model.get('type')} of the tokenizers library).\n"
            "Train with tokenizer.kind = 'bpe', or export a folder for transformers."
        )
    normalizer = (document.get("normalizer") or {}).get("type")
    if normalizer not in (None, "NFC"):
        raise TokenizerError(
            f"llama.cpp does not normalise text, but this tokenizer does ({normalizer}).\n"
            "Train with tokenizer.lowercase = false and tokenizer.normalization = 'nfc' or 'none'."
        )
    splits = splits_of(document.get("pre_tokenizer"))
    if splits == () and not model["merges"]:  # single bytes are the same after any split
        splits = (GPT2,)
    ignores = bool(model.get("ignore_merges"))
    names = [
        name for name, theirs in SPLITS.items() if theirs == splits and (name in LIKE_LLAMA_3) == ignores
    ]
    if not names:
        raise TokenizerError(
            "This tokenizer splits text into words in a way that llama.cpp has no name for: "
            f"{json.dumps(document.get('pre_tokenizer'), ensure_ascii=False):.200}\n"
            "It knows those of GPT-2, Llama 3, Qwen 2, SmolLM and some others. Train with tokenizer.kind = 'bpe', "
            "which has GPT-2's, or export a folder for transformers."
        )
    return names[0]


def tokens_of(tokenizer: Tokenizer, vocabulary: int) -> tuple[list[str], list[int]]:
    """The spelling and the kind of every token; an id of the model without a token is unused."""
    added = {token["id"]: token for token in json.loads(tokenizer.document).get("added_tokens") or []}
    names, kinds = [], []
    for number in range(vocabulary):
        name = tokenizer.spelling(number) if number < tokenizer.size else None
        names.append(f"[PAD{number}]" if name is None else name)
        if number in added:
            kinds.append(CONTROL if added[number]["special"] else USER)
        else:
            kinds.append(UNUSED if name is None else NORMAL)
    return names, kinds


def frame_keys(tokenizer: Tokenizer, config: ModelConfig) -> dict[str, Value]:
    """Which special tokens llama.cpp puts around a text: the same that `transformers` would."""
    before, after = find_framing(framed_document(tokenizer, config)["post_processor"]) or ((), ())
    specials = tokenizer.specials
    if len(before) > 1 or after not in ((), (specials.end,)):
        raise TokenizerError(
            f"This tokenizer puts the ids {[*before]} before a text and {[*after]} after it.\n"
            "llama.cpp can add one before it, and the end token after it."
        )
    begin = before[0] if before else specials.begin
    keys: dict[str, Value] = {"add_bos_token": bool(before), "add_eos_token": bool(after)}
    return keys | ({} if begin is None else {"bos_token_id": begin})


def notes_on(document: Document) -> list[str]:
    """What llama.cpp does differently with some texts."""
    notes = []
    words = document.get("pre_tokenizer") or {}
    if words.get("type") == "Metaspace":
        notes.append("llama.cpp puts a space before a text that starts with one, too")
    if (document.get("normalizer") or {}).get("type") == "NFC":
        notes.append("llama.cpp does not normalise to NFC: give it text in that form, as almost all text is")
    stripped = [t["content"] for t in document.get("added_tokens") or [] if is_stripping(t)]
    if stripped:
        notes.append(f"llama.cpp keeps the spaces around {', '.join(stripped[:4])}")
    return notes


def is_stripping(token: dict[str, Any]) -> bool:
    """Whether an added token that a text can spell takes the spaces around it along."""
    return not token["special"] and bool(token.get("lstrip") or token.get("rstrip"))
