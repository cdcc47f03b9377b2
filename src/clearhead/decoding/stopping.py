"""When a text is done, and what of it may be shown: ids enter one by one, safe pieces of text leave.

A stop string may begin in one token and end in another, so text that could still become one is held back. Of
a stop string nothing is ever shown.
"""

from collections.abc import Sequence
from typing import Literal

from clearhead.text.stream import Stream
from clearhead.text.tokenizer import Tokenizer

Reason = Literal["end", "stop", "length", "context", "time"]
"""end token; stop string; max_tokens written; the model's context is full; the time limit has passed."""


class Writer:
    """Turns the ids of one text into pieces, and notices stop strings."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self.stream, self.stop = Stream(tokenizer), tuple(stop)
        self.held = ""  # might still become a stop string
        self.is_stopped = False

    def push(self, token: int) -> str:
        """The text that is sure after one more id."""
        return self.release(self.stream.push(token))

    def finish(self) -> str:
        """What was still held back when no more ids come."""
        if self.is_stopped:
            return ""
        piece = self.release(self.stream.finish())
        return piece if self.is_stopped else piece + self.held

    def release(self, piece: str) -> str:
        """What may be shown of the text held back and a new piece."""
        if self.is_stopped:
            return ""
        text = self.held + piece
        places = [text.find(stop) for stop in self.stop]
        if any(place >= 0 for place in places):
            self.is_stopped, self.held = True, ""
            return text[: min(place for place in places if place >= 0)]
        keep = max((overlap(text, stop) for stop in self.stop), default=0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]


def overlap(text: str, stop: str) -> int:
    """How many letters at the end of a text are the beginning of a stop string."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)
