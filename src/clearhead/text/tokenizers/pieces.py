"""What one token looks like: its bytes where pieces are made of bytes, its text otherwise.

Byte-level tokenizers spell every byte as one printable character (the alphabet of GPT-2), so that a space is
Ġ and é is Ã©. Others spell single bytes as <0xC3>. Both are turned back here.
"""

import re
from typing import Any

BYTE = re.compile(r"<0x(?:[0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")  # what the library takes for a byte, sign and all


def _alphabet() -> dict[str, int]:
    """The printable character that stands for each byte: itself, or one of those after U+0100 in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_OF = _alphabet()


def level_bytes(piece: str) -> bytes:
    """The bytes that a byte-level piece stands for; a piece in another alphabet stands for itself."""
    try:
        return bytes([BYTE_OF[letter] for letter in piece])
    except KeyError:
        return piece.encode()


def fallback_byte(piece: str) -> int | None:
    """The byte that a piece such as <0xC3> stands for, or None."""
    return int(piece[3:5], 16) if BYTE.fullmatch(piece) else None


def readable(piece: str, steps: list[dict[str, Any]]) -> str:
    r"""A piece as people read it, by the steps of its decoder; half a character as \xe2\x82."""
    for step in steps:
        match step:
            case {"type": "ByteLevel"}:
                return level_bytes(piece).decode("utf-8", "backslashreplace")
            case {"type": "ByteFallback"} if (byte := fallback_byte(piece)) is not None:
                return bytes([byte]).decode("utf-8", "backslashreplace")
            case {"type": "Replace", "pattern": {"String": mark}, "content": " "} if len(mark) == 1:
                piece = piece.replace(mark, " ")
            case {"type": "Metaspace", "replacement": mark}:
                piece = piece.replace(mark, " ")
    return piece


def steps_of(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The steps of a decoder, sequences unfolded; none where tokens are just joined by spaces."""
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [step for part in decoder["decoders"] for step in steps_of(part)]
    return [decoder]
