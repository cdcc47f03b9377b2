"""Tokens in their text: a text enters; each token leaves with its id, bytes and place in the text."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def text_tokens(tokenizer: Tokenizer, text: str, frame: Frame, appended: Sequence[int]) -> list[TextToken]:
    """The tokens of a text in its frame, and those appended to it."""
    found, end = tokenizer.offsets(text), (len(text), len(text))
    tokens = [text_token(tokenizer, id, (0, 0)) for id in frame.before]
    tokens += [text_token(tokenizer, id, place) for id, place in zip(found.ids, found.offsets, strict=True)]
    tokens += [text_token(tokenizer, id, end) for id in frame.after]
    return tokens + [text_token(tokenizer, id, end, added=True) for id in appended]


def text_token(
    tokenizer: Tokenizer, id: int, place: tuple[int, int] = (0, 0), added: bool = False
) -> TextToken:
    """One token, at a place of a text."""
    raw = token_bytes(tokenizer, id)
    return TextToken(
        id, tokenizer.piece(id), raw.hex(" "), *place, tokenizer.is_special(id), not is_utf8(raw), added
    )
