"""The bytes of a token: a tokenizer and an id enter; what the token spells leaves, which may be part of a character."""

from clearhead.text.tokenizers.pieces import fallback_byte, level_bytes, steps_of
from clearhead.text.tokenizers.tokenizer import Tokenizer


def token_bytes(tokenizer: Tokenizer, id: int) -> bytes:
    """The bytes that a token spells."""
    spelling = tokenizer.spelling(id)
    if spelling is None or tokenizer.is_special(id):
        return (spelling or "").encode()
    for step in steps_of(tokenizer.decoder):
        if step["type"] == "ByteLevel":
            return level_bytes(spelling)
        if step["type"] == "ByteFallback" and (byte := fallback_byte(spelling)) is not None:
            return bytes([byte])
    return tokenizer.piece(id).encode()


def is_utf8(raw: bytes) -> bool:
    """Whether bytes are complete characters of UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def word_breaks(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens between words: what spells neither letters nor digits; parts of characters are letters."""
    ids = range(tokenizer.size)
    return tuple(i for i in ids if tokenizer.is_special(i) or is_between_words(token_bytes(tokenizer, i)))


def is_between_words(raw: bytes) -> bool:
    """Whether bytes are complete characters without a letter, a digit or an underscore among them."""
    return is_utf8(raw) and not any(letter.isalnum() or letter == "_" for letter in raw.decode())


def is_part_of_character(tokenizer: Tokenizer, id: int) -> bool:
    """Whether a token spells no complete character, as a byte of one that the tokenizer has not learned."""
    return not tokenizer.is_special(id) and not is_utf8(token_bytes(tokenizer, id))


def has_long_tokens(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer has learned more than single bytes."""
    ordinary = (id for id in range(tokenizer.size) if not tokenizer.is_special(id))
    return any(len(token_bytes(tokenizer, id)) > 1 for id in ordinary)
