"""Tokens as the page shows them: a text enters; each token leaves with its id, bytes and place in the text."""

from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.data.frames import Frame
from clearhead.text.pieces import fallback_byte, level_bytes, steps_of
from clearhead.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ShownToken:
    """One token of a text; a token that the text does not spell stands at an empty place."""

    id: int
    text: str
    bytes: str  # in hexadecimal
    start: int
    end: int
    special: bool
    partial: bool  # whether its bytes are no whole characters
    added: bool = False  # whether it was put after the text


def show_tokens(tokenizer: Tokenizer, text: str, frame: Frame, more: Sequence[int]) -> list[ShownToken]:
    """The tokens of a text in its frame, and those that were put after it."""
    found, end = tokenizer.offsets(text), (len(text), len(text))
    shown = [show(tokenizer, id, (0, 0)) for id in frame.before]
    shown += [show(tokenizer, id, place) for id, place in zip(found.ids, found.offsets, strict=True)]
    shown += [show(tokenizer, id, end) for id in frame.after]
    return shown + [show(tokenizer, id, end, added=True) for id in more]


def show(tokenizer: Tokenizer, id: int, place: tuple[int, int], added: bool = False) -> ShownToken:
    """One token."""
    raw = token_bytes(tokenizer, id)
    return ShownToken(
        id, tokenizer.piece(id), raw.hex(" "), *place, tokenizer.is_special(id), not is_whole(raw), added
    )


def token_bytes(tokenizer: Tokenizer, id: int) -> bytes:
    """The bytes that a token stands for."""
    spelling = tokenizer.spelling(id)
    if spelling is None or tokenizer.is_special(id):
        return (spelling or "").encode()
    for step in steps_of(tokenizer.decoder):
        if step["type"] == "ByteLevel":
            return level_bytes(spelling)
        if step["type"] == "ByteFallback" and (byte := fallback_byte(spelling)) is not None:
            return bytes([byte])
    return tokenizer.piece(id).encode()


def is_whole(raw: bytes) -> bool:
    """Whether bytes are whole characters of UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
