"""Text becomes tokens, and tokens become text again: one tokenizer for every kind, in one `tokenizer.json`.

Text enters and ids leave (`encode`), or ids enter and text leaves (`decode`); for kinds without unknowns, the
text that comes back is the normalised form of the text that went in. The work is done by the `tokenizers`
library, and by `tiktoken` for batches where both are proven to agree (see `fast`).
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from clearhead.config.tokenizer import Role, TokenizerConfig
from clearhead.errors import TokenizerError
from clearhead.text.tokenizers.checks import CheckedTexts, checked, plain
from clearhead.text.tokenizers.fast import Encoder, Ids, LibraryEncoder, fastest
from clearhead.text.tokenizers.file import (
    CHAT_TEMPLATE,
    explained,
    guard,
    parse,
    read_chat_template,
    read_text,
    write_text,
)
from clearhead.text.tokenizers.kinds import KINDS, specials
from clearhead.text.tokenizers.pieces import readable, steps_of
from clearhead.text.tokenizers.roles import (
    SPELLINGS,
    Document,
    Specials,
    find_between,
    find_framing,
    find_markers,
    find_roles,
    state_roles,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoded:
    """The tokens of a text: ids, places in the text (start, end), and what each looks like."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    pieces: list[str]


class Tokenizer:
    """Splits text into tokens and puts it together again."""

    def __init__(self, document: str, where: str = "The tokenizer", chat_template: str | None = None) -> None:
        """From the text of a `tokenizer.json`, and the model's own chat template; `where` names it in errors."""
        self.document, self.chat_template = document, chat_template
        self._library, parsed = parse(document, where)
        with explained(f"{where} is damaged"):
            roles = find_roles(parsed)
            added = parsed.get("added_tokens") or []
            hidden = {token["content"] for token in added if token["special"]}
            # Special tokens, and how they are spelled where no text can spell them.
            self._guarded, self.guarded = guard(parsed, hidden | set(roles.values()))
            self.decoder: dict[str, object] | None = parsed.get("decoder")
            self._steps = steps_of(parsed.get("decoder"))
            framing = find_framing(parsed.get("post_processor"))
            between = find_between(parsed.get("post_processor"))
        ids = {role: self._library.token_to_id(name) for role, name in roles.items()}
        own = between if between and framing and between != framing[1] else None
        self.specials = Specials(**ids, framing=framing, between=own)
        # The ids that come before the messages of a conversation, by role; others have none.
        numbers = {role: self._library.token_to_id(name) for role, name in find_markers(parsed).items()}
        self.markers = {role: number for role, number in numbers.items() if number is not None}
        self.size: int = max(self._library.get_vocab().values()) + 1
        self._added: dict[int, bool] = {
            number: token.special for number, token in self._library.get_added_tokens_decoder().items()
        }

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> Self:
        """Learns a tokenizer from texts, which are read once, in a stream."""
        reader = CheckedTexts(texts)
        try:
            with explained(f"The {config.kind} tokenizer could not be trained"):
                library = KINDS[config.kind](reader, config)
        except TokenizerError:
            if reader.error is not None:
                raise reader.error from None
            raise
        roles = {role: name for role, name in SPELLINGS.items() if name in specials(config)}
        return cls(json.dumps(state_roles(json.loads(library.to_str()), roles), ensure_ascii=False))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a `tokenizer.json`, ours or of another project, or the one in a folder."""
        return cls(read_text(path), str(path), read_chat_template(path))

    def save(self, path: str | Path) -> None:
        """Writes the `tokenizer.json`, as it was loaded or trained, and the chat template beside it."""
        write_text(path, self.document)
        if self.chat_template is not None:
            write_text(Path(path).with_name(CHAT_TEMPLATE), self.chat_template)

    def with_chat_template(self, template: str | None) -> Self:
        """The same tokenizer with another chat template, or without one."""
        return type(self)(self.document, chat_template=template)

    def _changed(self, document: Document) -> Self:
        """The same tokenizer with another `tokenizer.json`."""
        return type(self)(json.dumps(document, ensure_ascii=False), chat_template=self.chat_template)

    def with_roles(self, **spellings: str) -> Self:
        """The same tokenizer with the special tokens of some roles named: `with_roles(end="<|im_end|>")`."""
        document = json.loads(self.document)
        roles = find_roles(document)
        added = {token["content"] for token in document.get("added_tokens") or []}
        known = {role: name for role, name in roles.items() if name in added}
        return self._changed(state_roles(document, known | spellings))

    def with_added(self, tokens: Sequence[str]) -> Self:
        """The same tokenizer with more tokens, which any text may spell; one that it has stays unchanged."""
        there = {token: self._library.token_to_id(token) for token in tokens}
        for token, number in there.items():
            if number is not None and (number in self.specials.ids or self.is_special(number)):
                raise TokenizerError(
                    f"{token!r} is a special token, which no text can spell, so it cannot be added for texts.\n"
                    "Omit it from tokenizer.added, or spell it differently."
                )
        new = [token for token, number in there.items() if number is None]
        if len(new) < len(there):
            log.warning(
                "tokenizer.added: %s already exist as tokens and stay unchanged.",
                ", ".join(repr(token) for token, number in there.items() if number is not None),
            )
        return self._grown([{"content": token, "special": False} for token in new])

    def with_specials(self, tokens: Sequence[str]) -> Self:
        """The same tokenizer with more special tokens, which no text can spell."""
        return self._grown([{"content": token, "special": True} for token in tokens])

    def with_markers(self, spellings: Mapping[Role, str]) -> Self:
        """The same tokenizer with a special token before the messages of each role, which no text can spell."""
        for name in spellings.values():
            number = self._library.token_to_id(name)
            if number is not None and (not self.is_special(number) or number in self.specials.ids):
                raise TokenizerError(
                    f"{name!r} already is a token with a meaning of its own, so it cannot mark a role.\n"
                    "Spell the marker differently in tokenizer.markers."
                )
        return self._grown(
            [{"content": name, "special": True, "marker": role} for role, name in spellings.items()]
        )

    def _grown(self, tokens: Sequence[dict[str, object]]) -> Self:
        """With added tokens; a new one gets the next id, and an existing one the stated properties."""
        document = json.loads(self.document)
        added = {token["content"]: token for token in document.get("added_tokens") or []}
        size, plain = self.size, dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for token in tokens:
            number = self._library.token_to_id(str(token["content"]))
            number, size = (size, size + 1) if number is None else (number, size)
            added[token["content"]] = {"id": number} | plain | added.get(token["content"], {}) | token
        listed = sorted(added.values(), key=lambda token: int(token["id"]))
        grown = self._changed(document | {"added_tokens": listed})
        if any(grown._library.token_to_id(token["content"]) != token["id"] for token in listed):
            raise TokenizerError(
                f"{tokens[0]['content']!r} cannot be added: the library gives the tokens of this file other ids.\n"
                "Use a tokenizer whose ids have no gaps."
            )
        return grown

    @property
    def digest(self) -> str:
        """A name for exactly this tokenizer, the same on every machine."""
        text = self.document if self.chat_template is None else f"{self.document}\0{self.chat_template}"
        return hashlib.sha256(text.encode()).hexdigest()

    def normalize(self, text: str) -> str:
        """The form of a text that is split into tokens."""
        normalizer = self._library.normalizer
        return normalizer.normalize_str(checked(text)) if normalizer else text

    def encode(
        self, text: str, begin: bool = False, end: bool = False, allow_special: bool = False
    ) -> list[int]:
        """The ids of a text, with the begin and end tokens where asked for.

        What a text spells never becomes a special token, unless `allow_special` says that it may.
        """
        before, after = self._frame(begin, end)
        library = self._library if allow_special else self._guarded
        with explained("This text cannot be encoded"):
            return [*before, *library.encode(checked(text), add_special_tokens=False).ids, *after]

    def encode_batch(
        self, texts: Sequence[str], begin: bool = False, end: bool = False, allow_special: bool = False
    ) -> list[Ids]:
        """The ids of many texts as arrays, by the fastest way and on all cores."""
        before, after = self._frame(begin, end)
        encoder = LibraryEncoder(self._library) if allow_special else self._encoder
        with explained("These texts cannot be encoded"):
            rows = encoder.encode([checked(text) for text in texts])
        if not before and not after:
            return rows
        first, last = np.array(before, np.int32), np.array(after, np.int32)
        return [np.concatenate((first, ids, last)) for ids in rows]

    def encode_joined(self, texts: Sequence[str]) -> tuple[Ids, NDArray[np.int64]]:
        """The ids of many texts in one array, and how many each has: the fastest way for many short texts."""
        with explained("These texts cannot be encoded"):
            return self._encoder.joined([checked(text) for text in texts])

    def offsets(
        self, text: str, begin: bool = False, end: bool = False, allow_special: bool = False
    ) -> Encoded:
        """The tokens of a text with their places in it: `text[start:end]` is what a token was made from."""
        before, after = self._frame(begin, end)
        library = self._library if allow_special else self._guarded
        with explained("This text cannot be encoded"):
            encoding = library.encode(checked(text), add_special_tokens=False)
        ids = [*before, *encoding.ids, *after]
        places = [(0, 0) for _ in before] + _without_gaps(text, encoding.offsets)
        places += [(len(text), len(text)) for _ in after]
        return Encoded(ids, places, [self.piece(token) for token in ids])

    def decode(self, ids: Sequence[int] | NDArray[np.integer], keep_special: bool = False) -> str:
        """The text of some ids; bytes that are not a complete character become U+FFFD."""
        with explained("These ids cannot be decoded"):
            return self._library.decode(plain(ids), skip_special_tokens=not keep_special)

    def piece(self, token: int) -> str:
        r"""One token as people read it; bytes that are not a complete character as \xe2\x82."""
        piece = self.spelling(token)
        if piece is None:
            return f"<{token}>"
        return piece if token in self._added else readable(piece, self._steps)

    def spelling(self, token: int) -> str | None:
        """One token as `tokenizer.json` spells it, or None for an id without a token."""
        return self._library.id_to_token(plain([token])[0])

    def is_special(self, token: int) -> bool:
        """Whether decoding skips this token."""
        return self._added.get(token, False)

    def counts_unknown(self, ids: Sequence[int] | NDArray[np.integer]) -> int:
        """How many of these ids are the unknown token."""
        if self.specials.unknown is None:
            return 0
        return int(np.count_nonzero(np.asarray(ids) == self.specials.unknown))

    @cached_property
    def _encoder(self) -> Encoder:
        return fastest(json.loads(self.document), self._guarded, self.specials.ids)

    def _frame(self, begin: bool, end: bool) -> tuple[list[int], list[int]]:
        return self._of_role("begin", begin), self._of_role("end", end)

    def _of_role(self, role: str, wanted: bool) -> list[int]:
        if not wanted:
            return []
        token: int | None = getattr(self.specials, role)
        if token is None:
            raise TokenizerError(
                f"This tokenizer has no {role} token. Name one with `tokenizer.with_roles({role}=...)`."
            )
        return [token]

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str | None]]:
        return type(self), (self.document, "The tokenizer", self.chat_template)

    def __repr__(self) -> str:
        return f"Tokenizer({self.size} tokens, {self.specials})"


def _without_gaps(text: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places that include what a normaliser joined to the character before, such as an accent.

    The library assigns such a character to no token. Only white space may belong to none.
    """
    places = list(offsets)
    limit = len(text)
    for index in range(len(places) - 1, -1, -1):
        start, end = places[index]
        if index + 1 < len(places) and offsets[index] == offsets[index + 1]:
            places[index] = places[index + 1]
        else:
            while start < end < limit and not text[end].isspace():
                end += 1
            places[index] = start, end
        limit = min(limit, start)
    return places
