"""Which tokens begin, end, pad, mask and separate: special tokens by role, however they are spelled.

The JSON of a `tokenizer.json` enters; the id of each role leaves. Our own files state the roles beside each
added token (`"roles": ["begin"]`), a key that other tools ignore. In files of other projects they are
found in the model (unknown), in the post-processor (what it puts around a text), and by well-known names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from clearhead.config.tokenizer import MARKERS
from clearhead.errors import TokenizerError, suggest

# In the order of their ids in a tokenizer that we train, with the spelling there.
SPELLINGS = {
    "padding": "<pad>",
    "begin": "<s>",
    "end": "</s>",
    "mask": "<mask>",
    "separator": "<sep>",
    "unknown": "<unk>",
}

# Spellings of other projects, the most specific first.
NAMES = {
    "padding": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>"),
    "begin": ("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "[CLS]", "<|endoftext|>"),
    "end": ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "<|endoftext|>", "[SEP]"),
    "mask": ("<mask>", "[MASK]"),
    "separator": ("<sep>", "[SEP]", "</s>"),
    "unknown": ("<unk>", "[UNK]"),
}

Document = dict[str, Any]  # a tokenizer.json, read


@dataclass(frozen=True)
class Specials:
    """The id of the special token of each role, or None where a tokenizer has none."""

    begin: int | None = None
    end: int | None = None
    padding: int | None = None
    unknown: int | None = None
    mask: int | None = None
    separator: int | None = None

    @property
    def ids(self) -> frozenset[int]:
        """All of them."""
        return frozenset(token for token in asdict(self).values() if token is not None)


def find_roles(document: Document) -> dict[str, str]:
    """The spelling of each role that the document has."""
    added = document.get("added_tokens") or []
    stated = {
        role: token["content"] for token in added for role in token.get("roles", ()) if role in SPELLINGS
    }
    unknown = _unknown(document["model"])
    if stated:
        return unknown | stated
    known = {token["content"] for token in added}
    named = {role: name for role, names in NAMES.items() for name in reversed(names) if name in known}
    found = named | _around(document.get("post_processor") or {})
    # Byte-level files name some token, often the end, as the unknown one that they never need.
    return found if unknown.get("unknown") in (found.get("begin"), found.get("end")) else found | unknown


def find_markers(document: Document) -> dict[str, str]:
    """The spelling of the token before the messages of each role of a conversation, where there are such."""
    added = document.get("added_tokens") or []
    return {token["marker"]: token["content"] for token in added if token.get("marker") in MARKERS}


def state_roles(document: Document, roles: Mapping[str, str]) -> Document:
    """The document with these roles written beside its added tokens."""
    for role in roles:
        if role not in SPELLINGS:
            raise TokenizerError(f"{role!r} is not the role of a special token. {suggest(role, SPELLINGS)}")
    added = [dict(token) for token in document.get("added_tokens") or []]
    for token in added:
        token.pop("roles", None)
    by_spelling = {token["content"]: token for token in added}
    for role, spelling in roles.items():
        if spelling not in by_spelling:
            near = suggest(spelling, by_spelling)
            raise TokenizerError(f"No added token is spelled {spelling!r} ({role}). {near}")
        by_spelling[spelling].setdefault("roles", []).append(role)
    return document | {"added_tokens": added}


def _around(processor: Document) -> dict[str, str]:
    """What a post-processor puts before, after and between texts."""
    match processor.get("type"):
        case "Sequence":
            return {k: v for part in processor["processors"] for k, v in _around(part).items()}
        case "BertProcessing" | "RobertaProcessing":
            begin, end = processor["cls"][0], processor["sep"][0]
            return {"begin": begin, "end": end, "separator": end}
        case "TemplateProcessing":
            single, pair = list(_pieces(processor["single"])), list(_pieces(processor["pair"]))
            before, after = single[: single.index(None)], single[single.index(None) + 1 :]
            texts = [place for place, piece in enumerate(pair) if piece is None]
            between = pair[texts[0] + 1 : texts[-1]]
            found = {"begin": before, "end": after, "separator": between}
            return {role: spellings[0] for role, spellings in found.items() if spellings and spellings[0]}
    return {}


def _pieces(template: list[Document]) -> Iterator[str | None]:
    """The spelling of each special token of a template, and None for a text."""
    for piece in template:
        yield piece["SpecialToken"]["id"] if "SpecialToken" in piece else None


def _unknown(model: Document) -> dict[str, str]:
    if isinstance(model.get("unk_id"), int):
        return {"unknown": model["vocab"][model["unk_id"]][0]}
    return {"unknown": model["unk_token"]} if model.get("unk_token") else {}
