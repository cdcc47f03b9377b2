"""Tokens in their text: a text enters; each token leaves with its id, bytes and place in the text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from unicodedata import combining, normalize

from clearhead.data.frames import Frame
from clearhead.text.tokenizers.token_bytes import is_utf8, token_bytes
from clearhead.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextToken:
    """One token of a text; a token that the text does not spell has an empty place."""

    id: int
    text: str
    bytes: str  # in hexadecimal
    start: int
    end: int
    special: bool
    partial: bool  # whether its bytes are incomplete characters
    added: bool = False  # whether it was appended to the text
    unknown: bool = False  # whether the vocabulary lacks it: `text` is then what was written


def text_tokens(tokenizer: Tokenizer, text: str, frame: Frame, appended: Sequence[int]) -> list[TextToken]:
    """The tokens of a text in its frame, and those appended to it."""
    found, end = tokenizer.offsets(text), (len(text), len(text))
    tokens = [text_token(tokenizer, id, (0, 0)) for id in frame.before]
    tokens += [
        written(tokenizer, id, place, text) for id, place in zip(found.ids, found.offsets, strict=True)
    ]
    tokens += [text_token(tokenizer, id, end) for id in frame.after]
    return tokens + [text_token(tokenizer, id, end, added=True) for id in appended]


def written(tokenizer: Tokenizer, id: int, place: tuple[int, int], text: str) -> TextToken:
    """A token of a text; one that the vocabulary lacks keeps the spelling of the text."""
    token, spelt = text_token(tokenizer, id, place), text[slice(*place)].strip()
    if id != tokenizer.specials.unknown or not spelt:
        return token
    return replace(token, text=spelt, bytes=spelt.encode().hex(" "), special=False, unknown=True)


def known_spelling(tokenizer: Tokenizer, word: str) -> str | None:
    """Another way to write a word, all of which the vocabulary contains: in other cases, or without accents."""
    plain = "".join(letter for letter in normalize("NFD", word) if not combining(letter))
    for other in (word.lower(), word.capitalize(), word.upper(), plain, plain.lower()):
        if other != word and (ids := tokenizer.encode(other)) and not tokenizer.counts_unknown(ids):
            return other
    return None


def text_token(
    tokenizer: Tokenizer, id: int, place: tuple[int, int] = (0, 0), added: bool = False
) -> TextToken:
    """One token, at a place of a text."""
    raw = token_bytes(tokenizer, id)
    return TextToken(
        id, tokenizer.piece(id), raw.hex(" "), *place, tokenizer.is_special(id), not is_utf8(raw), added
    )
