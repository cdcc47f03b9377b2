"""How the text of a file is encoded: its first bytes enter; an encoding leaves, and its blocks as UTF-8.

A byte-order mark says it. Without one, text is UTF-8, or Windows-1252 (Latin-1 and a few more characters) if most of
the bytes outside ASCII cannot be UTF-8 and read as western text. Any other encoding must be stated in
`data.encoding`. A lone `\\r` ends the lines of a file that contains no `\\n`, as spreadsheets on a Macintosh write.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

UTF_8, WINDOWS = "utf-8", "cp1252"
SPELLED = {UTF_8: "UTF-8", WINDOWS: "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
MARKS = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark is its beginning
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

MULTIPLE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
OUTSIDE_ASCII = re.compile(rb"[\x80-\xff]")
UNDEFINED = re.compile(rb"[\0\x81\x8d\x8f\x90\x9d]")  # in Windows-1252, and the byte that no text contains
WESTERN = re.compile(r"[ŠŒŽšœžŸÀ-ÖØ-öø-ÿ]")
# A sign or a capital inside a word of small letters, which text in another encoding has and western text has not.
STRANGE = re.compile(r"(?<=[a-zß-öø-ÿ])[\xa1-\xac\xae-\xb3\xb5\xb6\xb8-\xbfÀ-ÖØ-Þ](?=[a-zß-öø-ÿ])")

BAD_BYTES = "clearhead.bad_bytes"
# What cannot be decoded becomes a byte that is not UTF-8 either, so that its line is found and reported later.
codecs.register_error(BAD_BYTES, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Encoding:
    """The name of an encoding, how many bytes the byte-order mark has, and whether it was guessed."""

    name: str
    mark: int = 0
    is_guess: bool = False

    @property
    def spelled(self) -> str:
        """What people call it."""
        return SPELLED.get(self.name, self.name)


def find_encoding(sample: bytes, stated: str | None = None) -> Encoding:
    """The encoding of a file that starts with these bytes."""
    for mark, name in MARKS.items():
        if sample.startswith(mark) and (stated is None or codecs.lookup(stated).name.startswith(name[:6])):
            return Encoding(name, len(mark), stated is None and name != UTF_8)
    if stated is not None:
        return Encoding(codecs.lookup(stated).name)
    if wide := _wide(sample):
        return Encoding(wide, is_guess=True)
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(sample)
    except UnicodeDecodeError:
        return Encoding(WINDOWS, is_guess=True) if is_western(sample) else Encoding(UTF_8)
    return Encoding(UTF_8)


def _wide(sample: bytes) -> str | None:
    """UTF-16 without a mark: text in which every second byte is nearly always zero, and the others never."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if min(even, odd) == 0 and max(even, odd) * 5 > len(sample) * 2:
        return "utf-16-le" if odd else "utf-16-be"
    return None


def is_western(sample: bytes) -> bool:
    """Whether bytes that are not UTF-8 are likely to be Windows-1252 or Latin-1."""
    others, multiple = MULTIPLE.subn(b"", sample)
    if multiple >= len(OUTSIDE_ASCII.findall(others)) or UNDEFINED.search(sample):
        return False
    text = sample.decode(WINDOWS)
    outside = len(OUTSIDE_ASCII.findall(sample))
    inside = len(re.findall(r"[A-Za-z]", text))
    return 2 * len(WESTERN.findall(text)) <= inside and 20 * len(STRANGE.findall(text)) <= outside


def to_utf8(sample: bytes, blocks: Iterable[bytes], encoding: Encoding) -> Iterator[bytes]:
    """The sample and the blocks after it in UTF-8, without a byte-order mark, and with `\\n` for a lone `\\r`."""
    decoder = None if encoding.name == UTF_8 else codecs.getincrementaldecoder(encoding.name)(BAD_BYTES)
    has_returns: bool | None = None
    for block in chain([sample[encoding.mark :]], blocks, [b""]):
        text = block
        if decoder is not None:  # which gives what it has kept at the empty block, the last
            text = decoder.decode(block, final=not block).encode(UTF_8, "surrogateescape")
        if has_returns is None:
            has_returns = b"\r" in text and b"\n" not in text
        yield text.replace(b"\r", b"\n") if has_returns else text
