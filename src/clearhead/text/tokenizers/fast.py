"""Many texts to ids, fast: `tiktoken` where it is proven to give the library's ids, else the library itself.

Texts enter and one array of ids per text leaves. `tiktoken` joins the two neighbours whose joined bytes are the
token of least id; the library follows a list of merges. The two are the same when

1. all 256 bytes are tokens, and every longer token is the result of exactly one merge, in the order of ids;
2. every token, split into bytes and merged by the list, becomes that one token again.

For suppose that `tiktoken` joins neighbours x and y to t after doing all that the merges before t's ask for.
No merge has crossed the ends of t so far, so the same merges bring the bytes of t alone to x and y. By rule 2
they bring them to the two sides of t's own merge: x and y are these sides, and the library joins them too.

What remains is the splitting into words, by two engines of regular expressions, and normal forms, by two
versions of Unicode. So only known patterns are taken, and a sample is encoded both ways before any text.
"""

import logging
import os
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tiktoken import Encoding
from tokenizers import Tokenizer as Library
from tokenizers import models

from clearhead.text.tokenizers.pieces import BYTE_OF, level_bytes

log = logging.getLogger(__name__)

Ids = NDArray[np.int32]
Joined = tuple[Ids, NDArray[np.int64]]
NO_IDS, NO_COUNTS = np.empty(0, np.int32), np.empty(0, np.int64)
Normalize = Callable[[str], str]

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = GPT4.replace(r"\p{N}{1,3}", r"\p{N}")

# Where a long text may be split in two: no word of the pattern has a space after something else, nor looks
# past the end of it. After a mark, GPT-4's takes line ends into the word.
CUTS = {
    GPT2: re.compile(r"(?<=\S)[ \t\r\n]"),
    GPT4: re.compile(r"(?<=\S)[ \t]"),
    QWEN: re.compile(r"(?<=\S)[ \t]"),
}

PART = 1 << 16  # characters of a text handed to tiktoken at once
LONGEST = (
    1 << 17
)  # and how far away the next split may be: the regular expressions overflow on a million spaces
BLOCK = 1 << 18  # characters of all texts encoded in one call
LIBRARY_BLOCK = 1 << 21  # the same for the library, which keeps more than a hundred bytes for each token

# Scripts, digits, contractions, spaces of all kinds, marks, and letters that only new tables of Unicode know.
PROBE = (
    "It's 12,345.67 O'CLOCK\t\tI'LL we'Ve \n\n  x = [1]\r\n\r\n \u00a0\u2003\u3000 \u0085 \u200b "
    "e\u0301\u0323 Ⅷ½² Straße ΣΊΣΥΦΟΣ Ёж \u05e9\u05c1\u05b8 \u0645\u064e\u0631 नमस्ते ไทย 中文字 한글 "
    "\u1100\u1161\u11a8 \U0001f469\u200d\U0001f467 𝔘𝟛 ﬁ \u1e9b\u0323 \u32ff \x00\x1c\x1f\ufeff "
    "\U00011935\U00011930 \U000105d2\u0307 \U00016d67\U00016d67 \U000113c2\U000113c2 \u1c89 \U0001ccf0"
)


class Encoder(Protocol):
    """Whatever turns many texts into ids."""

    def encode(self, texts: Sequence[str]) -> list[Ids]: ...

    def joined(self, texts: Sequence[str]) -> Joined: ...


class LibraryEncoder:
    """The library's own way for batches, in blocks that bound its memory."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """One array of ids a text."""
        rows: list[Ids] = []
        for block in _blocks(texts, LIBRARY_BLOCK):
            encodings = self._library.encode_batch_fast(block, add_special_tokens=False)
            rows += [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
        return rows

    def joined(self, texts: Sequence[str]) -> Joined:
        """The ids of all texts in one array, and how many each has."""
        return _together(self.encode(texts))


class ByteEncoder:
    """Bytes to their ids, by one table."""

    def __init__(self, ranks: dict[bytes, int], normalize: Normalize) -> None:
        self._table = np.array([ranks[bytes([byte])] for byte in range(256)], dtype=np.int32)
        self._normalize = normalize

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """One array of ids a text."""
        return [self._table[np.frombuffer(self._normalize(text).encode(), np.uint8)] for text in texts]

    def joined(self, texts: Sequence[str]) -> Joined:
        """The ids of all texts in one array, and how many each has."""
        encoded = [self._normalize(text).encode() for text in texts]
        return self._table[np.frombuffer(b"".join(encoded), np.uint8)], _counts(encoded)


class PairEncoder:
    """Byte-level BPE by tiktoken, on all cores.

    Texts are joined by a special token that nobody can guess and encoded many at a time, since a call for
    each would spend the time of short texts on handing over; long texts are split between words.
    """

    def __init__(self, ranks: dict[bytes, int], pattern: str, normalize: Normalize, slow: Encoder) -> None:
        self._separator = f"<{secrets.token_hex(16)}>"
        self._number = max(ranks.values()) + 1
        self._encoding = Encoding(
            "pairs", pat_str=pattern, mergeable_ranks=ranks, special_tokens={self._separator: self._number}
        )
        self._cut = CUTS[pattern]
        self._normalize = normalize
        self._slow = slow

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """One array of ids a text."""
        parts = [self._parts(self._normalize(text)) for text in texts]
        blocks = list(_blocks([part for pieces in parts for part in pieces or ()], BLOCK))
        with ThreadPoolExecutor(min(len(blocks), cores()) or 1) as pool:
            encoded = iter([ids for rows in pool.map(self._encode_block, blocks) for ids in rows])
        whole = [text for text, pieces in zip(texts, parts, strict=True) if pieces is None]
        slow = iter(self._slow.encode(whole))
        return [
            next(slow) if pieces is None else _joined([next(encoded) for _ in pieces]) for pieces in parts
        ]

    def joined(self, texts: Sequence[str]) -> Joined:
        """The ids of all texts in one array, and how many each has: no array is made for each text."""
        if max(map(len, texts), default=0) > PART:
            return _together(self.encode(texts))
        blocks = list(_blocks([self._normalize(text) for text in texts], BLOCK))
        with ThreadPoolExecutor(min(len(blocks), cores()) or 1) as pool:
            ids, ends = zip(*pool.map(self._ids, blocks), strict=True) if blocks else ((), ())
        counts = [np.diff(end, prepend=-1, append=len(row)) - 1 for row, end in zip(ids, ends, strict=True)]
        flat = [np.delete(row, end) for row, end in zip(ids, ends, strict=True)]
        return np.concatenate([NO_IDS, *flat]), np.concatenate([NO_COUNTS, *counts])

    def _parts(self, text: str) -> list[str] | None:
        """The text split into parts; None where some stretch has no place to split."""
        parts, start = [], 0
        while len(text) - start > PART + LONGEST:
            cut = self._cut.search(text, start + PART, start + PART + LONGEST)
            if cut is None:
                return None
            parts.append(text[start : cut.start()])
            start = cut.start()
        return [*parts, text[start:]]

    def _encode_block(self, parts: list[str]) -> list[Ids]:
        rows, ends = self._ids(parts)
        return [rows[start:end] for start, end in zip([0, *ends + 1], [*ends, len(rows)], strict=True)]

    def _ids(self, parts: list[str]) -> Joined:
        """The ids of some texts with separators between them, and where these are."""
        joined = self._separator.join(parts)
        ids = self._encoding.encode_to_numpy(joined, allowed_special={self._separator}, disallowed_special=())
        return ids.astype(np.int32), np.flatnonzero(ids == self._number)


def fastest(document: dict[str, Any], library: Library, specials: frozenset[int]) -> Encoder:
    """The fastest encoder that gives this library's ids."""
    slow = LibraryEncoder(library)
    fast = _candidate(document, library, slow, specials)
    if fast is None:
        return slow
    if not _agree(fast, slow):
        log.warning("tiktoken and tokenizers differ on a sample; using tokenizers, which is slower.")
        return slow
    return fast


def _agree(fast: Encoder, slow: Encoder) -> bool:
    texts = [PROBE, "", *PROBE.split(" "), PROBE[::-1]]
    return all(map(np.array_equal, fast.encode(texts), slow.encode(texts)))


def _candidate(
    document: dict[str, Any], library: Library, slow: Encoder, specials: frozenset[int]
) -> Encoder | None:
    """An encoder without the library, if this tokenizer is byte-level BPE that follows the rules above."""
    model, words = document["model"], split_pattern(document.get("pre_tokenizer"))
    odd = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    if model.get("type") != "BPE" or words is None or any(model.get(key) for key in odd):
        return None
    added = document.get("added_tokens") or []
    if any(not token["special"] and token["id"] not in specials for token in added):
        return None  # ordinary tokens that are searched for in the text before it is split into words
    hidden = {token["content"] for token in added}
    vocabulary = {piece: number for piece, number in model["vocab"].items() if piece not in hidden}
    merges = [tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    if not _follows_rules(vocabulary, merges):
        return None
    ranks = {level_bytes(piece): number for piece, number in vocabulary.items()}
    normalize = _normalize(document.get("normalizer"), library)
    if words in CUTS:
        return PairEncoder(ranks, words, normalize, slow)
    return None if merges else ByteEncoder(ranks, normalize)


def split_pattern(pre_tokenizer: dict[str, Any] | None) -> str | None:
    """The pattern that splits text into words before bytes are paired; empty for none, None for another."""
    match pre_tokenizer:
        case {"type": "ByteLevel", "add_prefix_space": False, **rest}:
            return GPT2 if rest.get("use_regex", True) else ""
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            ],
        } if pattern in CUTS:
            return str(pattern)
    return None


def _follows_rules(vocabulary: dict[str, int], merges: list[tuple[str, ...]]) -> bool:
    """Whether merging by list and merging by id are the same (see the top of this file)."""
    results = [vocabulary.get("".join(pair), -1) for pair in merges]
    longer = [piece for piece in vocabulary if len(piece) > 1]
    is_in_order = all(before < after for before, after in pairwise([-1, *results]))
    has_bytes = set("".join(vocabulary)) == BYTE_OF.keys() <= vocabulary.keys()
    if not (is_in_order and has_bytes and len(longer) == len(merges)):
        return False
    model = models.BPE(vocab=vocabulary, merges=[(a, b) for a, b in merges])
    return all([token.id for token in model.tokenize(piece)] == [vocabulary[piece]] for piece in longer)


def _normalize(normalizer: dict[str, Any] | None, library: Library) -> Normalize:
    """The library's normaliser, skipped where Python knows that it would change nothing."""
    if normalizer is None:
        return lambda text: text
    step, form = library.normalizer.normalize_str, normalizer["type"]
    if form not in ("NFC", "NFKC"):
        return step
    return lambda text: text if unicodedata.is_normalized(form, text) else step(text)


def _blocks(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """Neighbouring texts in lists of about this many characters."""
    block: list[str] = []
    length = 0
    for text in texts:
        block.append(text)
        length += len(text)
        if length >= size:
            yield block
            block, length = [], 0
    if block:
        yield block


def _joined(rows: list[Ids]) -> Ids:
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _together(rows: list[Ids]) -> Joined:
    return np.concatenate([NO_IDS, *rows]), _counts(rows)


def _counts(rows: Sequence[Sized]) -> NDArray[np.int64]:
    return np.fromiter(map(len, rows), np.int64, len(rows))


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
