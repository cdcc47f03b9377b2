"""One text that somebody waits for: tokens enter as the engine writes them, pieces of text leave."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from clearhead.decoding.engine import Draft, Token
from clearhead.decoding.live.lookup import Lookup
from clearhead.decoding.stopping import Reason, Writer
from clearhead.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Part:
    """What is new of a text: the tokens since the last part, what they spell, and why it ended if it did."""

    text: str
    tokens: Sequence[Token] = ()
    reason: Reason | None = None


@dataclass(eq=False)
class Request(Draft):
    """A draft whose parts are passed on, in the thread of the engine."""

    tokenizer: Tokenizer | None = None
    pass_on: Callable[[Part], None] = lambda part: None
    salt: bytes = b""  # requests share what was read of a prompt only if they have the same
    is_scored: bool = False  # whether the tokens of the prompt get log-probabilities
    only_reads: bool = False  # the prompt, and nothing is written
    error: Exception | None = None
    scores: list[Token] = field(default_factory=list)  # of the prompt, from its second token on
    reused: int = 0  # tokens of the prompt that did not have to be read

    def __post_init__(self) -> None:
        super().__post_init__()
        self.writer = None if self.tokenizer is None else Writer(self.tokenizer, self.settings.stop)

    @cached_property
    def lookup(self) -> Lookup:
        """What the text has already said."""
        return Lookup([*self.prompt, *self.ids])

    def report(self, token: Token, reason: Reason | None) -> Reason | None:
        """Passes on what a new token spells; the reason to stop, also a stop string."""
        piece = "" if self.writer is None or reason == "end" else self.writer.push(token.id)
        if self.writer is not None and self.writer.is_stopped:
            reason = "stop"
        elif self.writer is not None and reason is not None:
            piece += self.writer.finish()
            reason = "stop" if self.writer.is_stopped else reason
        self.pass_on(Part(piece, [token], reason))
        return reason

    def finish(self, reason: Reason) -> None:
        """Ends the text without another token."""
        self.reason = reason
        self.pass_on(Part("", [], reason))

    def fail(self, error: Exception) -> None:
        """Ends the text with an error."""
        self.error = error
        self.finish("error")

    def cancel(self) -> None:
        """Ends the text, since nobody waits for it; between two steps."""
        if self.reason is None:
            self.reason = "cancelled"
