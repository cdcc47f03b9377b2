"""Which tokens begin, end, pad, mask and separate: special tokens by role, however they are spelled.

The JSON of a `tokenizer.json` enters; the id of each role leaves. Our own files state the roles beside each
added token (`"roles": ["begin"]`), a key that other tools ignore. In files of other projects they are
found in the model (unknown), in the post-processor (what it puts around a text), and by well-known names.

The post-processor also says which ids a file puts before and after every text: its framing. A file without one leaves
that to the task, as tokenizers do that are trained here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
Framing = tuple[tuple[int, ...], tuple[int, ...]]  # the ids before and after a text


@dataclass(frozen=True)
class Specials:
    """The id of the special token of each role, or None where a tokenizer has none; and the framing of a text."""

    begin: int | None = None
    end: int | None = None
    padding: int | None = None
    unknown: int | None = None
    mask: int | None = None
    separator: int | None = None
    framing: Framing | None = None  # as the file states it; None if it says nothing
    between: tuple[int, ...] | None = (
        None  # two texts, where the file states other ids than those after one text
    )

    @property
    def ids(self) -> frozenset[int]:
        """The special tokens of all roles."""
        return frozenset(token for role in SPELLINGS if (token := getattr(self, role)) is not None)


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


def find_framing(processor: Document | None) -> Framing | None:
    """The ids that a post-processor puts before and after a text; None if there is no processor."""
    match (processor or {}).get("type"):
        case None:
            return None
        case "Sequence":
            parts = [find_framing(part) or ((), ()) for part in processor["processors"]]  # type: ignore[index]
            before = tuple(id for part in reversed(parts) for id in part[0])
            return before, tuple(id for part in parts for id in part[1])
        case "BertProcessing" | "RobertaProcessing":
            return (processor["cls"][1],), (processor["sep"][1],)  # type: ignore[index]
        case "TemplateProcessing":
            assert processor is not None
            names, ids = list(_pieces(processor["single"])), processor["special_tokens"]
            at = names.index(None)
            before, after = (
                tuple(id for name in part for id in ids[name]["ids"])
                for part in (names[:at], names[at + 1 :])
            )
            return before, after
    return (), ()


def find_between(processor: Document | None) -> tuple[int, ...] | None:
    """The ids that a post-processor puts between two texts; None if it says nothing of them."""
    match (processor or {}).get("type"):
        case "Sequence":
            parts = [find_between(part) for part in processor["processors"]]  # type: ignore[index]
            return next((part for part in parts if part is not None), None)
        case "BertProcessing" | "RobertaProcessing":
            assert processor is not None
            return (processor["sep"][1],) * (1 if processor["type"] == "BertProcessing" else 2)
        case "TemplateProcessing":
            assert processor is not None
            pair, ids = list(_pieces(processor["pair"])), processor["special_tokens"]
            first, second = (at for at, name in enumerate(pair) if name is None)
            return tuple(id for name in pair[first + 1 : second] for id in ids[name]["ids"])
    return None


def framing_processor(before: Mapping[str, int], after: Mapping[str, int]) -> Document:
    """The post-processor that puts these tokens before and after a text, and `after` also after a second one."""

    def special(name: str, side: int) -> Document:
        return {"SpecialToken": {"id": name, "type_id": side}}

    def text(name: str, side: int) -> Document:
        return {"Sequence": {"id": name, "type_id": side}}

    single = [*(special(name, 0) for name in before), text("A", 0), *(special(name, 0) for name in after)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), *(special(name, 1) for name in after)],
        "special_tokens": {
            name: {"id": name, "ids": [id], "tokens": [name]} for name, id in {**before, **after}.items()
        },
    }


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
