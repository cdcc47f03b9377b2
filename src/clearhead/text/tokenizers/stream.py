"""Text while it is generated: ids go in one at a time, complete characters come out.

The joined parts equal `decode` of all the ids, no part contains an incomplete character, and each id costs the
same however long the text has become. A decoder is a chain of steps. Some change each token on its own; some wait,
as for the rest of a character; after `Fuse` there is one long text, of which a step keeps back only the end.
A chain with a step that is not known here gives all of its text at the end.

The library's own `DecodeStream` is not used, because it breaks these laws for byte fallback: after <0x3A> it gives
":", though <0xC3> as the next token makes the whole text "��"; it raises at the id after that, and never gives the
bytes of a character that is incomplete at the end.
"""

import codecs
from collections.abc import Callable
from typing import Any, Protocol

from tokenizers import Regex, decoders

from clearhead.errors import InputError
from clearhead.text.tokenizers.file import explained
from clearhead.text.tokenizers.pieces import fallback_byte, level_bytes, steps_of
from clearhead.text.tokenizers.tokenizer import Tokenizer


class Step(Protocol):
    """One step of a decoder: tokens, or stretches of one text, go in, and come out once they are sure."""

    def push(self, token: str) -> list[str]: ...
    def finish(self) -> list[str]: ...


class Stream:
    """Turns ids into text as they come."""

    def __init__(self, tokenizer: Tokenizer, keep_special: bool = False) -> None:
        self._tokenizer = tokenizer
        self._keep_special = keep_special
        self._steps = _chain(tokenizer.decoder)
        self._ids: list[int] = []  # only for a chain that cannot be followed step by step
        self._is_open = True

    def push(self, token: int) -> str:
        """The text that is sure after one more id; often a few letters, sometimes none."""
        self._check_open()
        piece = self._tokenizer.spelling(token)
        if piece is None or (self._tokenizer.is_special(token) and not self._keep_special):
            return ""
        if self._steps is None:
            self._ids.append(token)
            return ""
        with explained(f"Token {token} cannot be decoded"):
            return _through(self._steps, [piece])

    def finish(self) -> str:
        """What was still waiting; a character that stayed incomplete is U+FFFD."""
        self._check_open()
        self._is_open = False
        if self._steps is None:
            return self._tokenizer.decode(self._ids, self._keep_special)
        rests = (_through(self._steps[place + 1 :], step.finish()) for place, step in enumerate(self._steps))
        return "".join(rests)

    def _check_open(self) -> None:
        if not self._is_open:
            raise InputError("This stream is finished. Create a new one for another text.")


def _through(steps: list[Step], tokens: list[str]) -> str:
    """The text of tokens that pass the steps that remain."""
    for step in steps:
        tokens = [passed for token in tokens for passed in step.push(token)]
    return "".join(tokens)


class Each:
    """Changes each token on its own; the first token may be treated differently."""

    def __init__(self, change: Callable[[str, bool], str]) -> None:
        self._change = change
        self._is_first = True

    def push(self, token: str) -> list[str]:
        changed = self._change(token, self._is_first)
        self._is_first = False
        return [changed]

    def finish(self) -> list[str]:
        return []


class Last:
    """Changes each token on its own; the last one is treated differently."""

    def __init__(self, change: Callable[[str, bool], str]) -> None:
        self._change = change
        self._waiting: list[str] = []

    def push(self, token: str) -> list[str]:
        waiting, self._waiting = self._waiting, [token]
        return [self._change(before, False) for before in waiting]

    def finish(self) -> list[str]:
        return [self._change(token, True) for token in self._waiting]


class Bytes:
    """Byte-level tokens to characters, each as soon as it is complete."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: str) -> list[str]:
        return [self._decoder.decode(level_bytes(token))]

    def finish(self) -> list[str]:
        return [self._decoder.decode(b"", final=True)]


class Fallback:
    """Runs of tokens such as <0xC3> to characters; only the end of a run shows whether it is sound."""

    def __init__(self) -> None:
        self._run = bytearray()

    def push(self, token: str) -> list[str]:
        byte = fallback_byte(token)
        if byte is None:
            return [*self.finish(), token]
        self._run.append(byte)
        return []

    def finish(self) -> list[str]:
        run, self._run = bytes(self._run), bytearray()
        try:
            return [run.decode()] if run else []
        except UnicodeDecodeError:
            return ["\ufffd"] * len(run)


class Replaced:
    """Replaces a fixed string in one long text, keeping back an end that may still become one."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new
        self._waiting = ""

    def push(self, token: str) -> list[str]:
        *sure, rest = (self._waiting + token).split(self._old)
        keep = next(size for size in range(len(self._old) - 1, -1, -1) if rest.endswith(self._old[:size]))
        self._waiting = rest[len(rest) - keep :]
        return [self._new.join([*sure, rest[: len(rest) - keep]])]

    def finish(self) -> list[str]:
        return [self._waiting]


class Stripped:
    """Takes a letter away from the start of one long text, up to some times."""

    def __init__(self, letter: str, most: int) -> None:
        self._letter, self._most = letter, most

    def push(self, token: str) -> list[str]:
        while self._most and token:
            if token[0] != self._letter:
                self._most = 0
                break
            token, self._most = token[1:], self._most - 1
        return [token]

    def finish(self) -> list[str]:
        return []


def _chain(decoder: dict[str, Any] | None) -> list[Step] | None:
    """The steps that do what a decoder does; None where one of them is not known."""
    if decoder is None:
        return [Each(lambda token, is_first: token if is_first else f" {token}")]
    chain: list[Step] = []
    is_fused = False
    for step in steps_of(decoder):
        made = _fused(step) if is_fused else _single(step)
        if made is None:
            return None
        chain += made
        is_fused = is_fused or step["type"] in ("Fuse", "ByteLevel")
    return chain


def _fused(step: dict[str, Any]) -> list[Step] | None:
    """A step on one long text."""
    match step:
        case {"type": "Fuse"}:
            return []
        case {"type": "Replace", "pattern": {"String": old}, "content": new} if old:
            return [Replaced(old, new)]
        case {"type": "Strip", "content": letter, "start": start, "stop": 0}:
            return [Stripped(letter, start)]
    return None


def _single(step: dict[str, Any]) -> list[Step] | None:
    """A step on separate tokens."""
    match step:
        case {"type": "Fuse"}:
            return []
        case {"type": "ByteLevel"}:
            return [Bytes()]
        case {"type": "ByteFallback"}:
            return [Fallback()]
        case {"type": "Replace", "pattern": {"String": old}, "content": new} if old:
            return [Each(lambda token, _: token.replace(old, new))]
        case {"type": "Replace", "pattern": {"Regex": old}, "content": new}:
            replace = decoders.Replace(Regex(old), new)
            return [Each(lambda token, _: replace.decode([token]))]
        case {"type": "Strip", "content": letter, "start": start, "stop": stop}:
            strip = decoders.Strip(letter, start, stop)
            return [Each(lambda token, _: strip.decode([token]))]
        case {"type": "Metaspace", "replacement": mark}:
            first = "" if _adds_a_space(step) else " "
            return [Each(lambda token, is_first: token.replace(mark, first if is_first else " "))]
        case {"type": "WordPiece", "prefix": prefix, "cleanup": cleanup}:
            # One token after an empty one is changed as any token but the first.
            words = decoders.WordPiece(prefix, cleanup)
            return [Each(lambda token, is_first: words.decode([token] if is_first else ["", token]))]
        case {"type": "BPEDecoder", "suffix": suffix} if suffix:
            return [Last(lambda token, is_last: token.replace(suffix, "" if is_last else " "))]
    return None


def _adds_a_space(metaspace: dict[str, Any]) -> bool:
    """Whether encoding put a space before the text, in the words of newer files or of older ones."""
    if "prepend_scheme" in metaspace:
        return bool(metaspace["prepend_scheme"] != "never")
    return bool(metaspace.get("add_prefix_space", True))
