"""When a text is done, and what of it may be shown: ids enter one by one, pieces that are final leave.

A stop string may begin in one token and end in another, so text that could still become one is held back. A
stop string itself is never shown. Of several, the one that is complete first counts, so that it does not matter
how the text was split into tokens.
"""

from collections.abc import Sequence
from typing import Literal

from clearhead.text.tokenizers.stream import Stream
from clearhead.text.tokenizers.tokenizer import Tokenizer

Reason = Literal["end", "stop", "length", "context", "time", "cancelled", "error"]
"""End token; stop string; max_tokens are generated; the model's context is full; the time limit has passed; nobody
waits for the text any more; it cannot be continued."""


class Writer:
    """Turns the ids of one text into pieces, and notices stop strings."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self.stream, self.stop = Stream(tokenizer), tuple(stop)
        self.held = ""  # might still become a stop string
        self.is_stopped = False

    def push(self, token: int) -> str:
        """The text that is final after one more id; nothing after a stop string."""
        return "" if self.is_stopped else self.release(self.stream.push(token))

    def finish(self) -> str:
        """What was still held back, when no more ids come."""
        if self.is_stopped:
            return ""
        piece = self.release(self.stream.finish())
        held, self.held = self.held, ""
        return piece + held

    def release(self, piece: str) -> str:
        """What may be shown of the text held back and a new piece."""
        text = self.held + piece
        places = [(place + len(stop), place) for stop in self.stop if (place := text.find(stop)) >= 0]
        if places:
            self.is_stopped, self.held = True, ""
            return text[: min(places)[1]]
        keep = max((overlap(text, stop) for stop in self.stop), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]


def overlap(text: str, stop: str) -> int:
    """How many letters at the end of a text are the beginning of a stop string."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)
