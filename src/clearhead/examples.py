"""What every source gives: a piece of text, a pair of texts, a text with its labels, or a conversation.

These are the only shapes in which text travels from the sources to the tokenizers and the batches.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "pair", "labelled"]
Split = Literal["train", "validation", "test"]

ANSWER = "assistant"  # whose messages a model learns to write


@dataclass(frozen=True, slots=True)
class Text:
    """A document, or a piece of a long one: `starts` is false where it continues the piece before it."""

    text: str
    starts: bool = True


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and what it should become, such as a sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, or two, and the name of its class; or those of its labels, or those of each of its words."""

    text: str  # if each word has a label, words with one space between them
    label: str | tuple[str, ...]
    second: str | None = None

    def __repr__(self) -> str:
        more = "" if self.second is None else f", second={self.second!r}"
        return f"Labelled(text={self.text!r}, label={self.label!r}{more})"

    @property
    def labels(self) -> tuple[str, ...]:
        """All its labels."""
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def answer(self) -> str:
        """The labels as one text, with spaces between them."""
        return self.label if isinstance(self.label, str) else " ".join(self.label)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that it is about."""
        return (self.text,) if self.second is None else (self.text, self.second)

    @property
    def input(self) -> str:
        """The texts as one line, with a tab between them."""
        return "\t".join(self.texts)


@dataclass(frozen=True, slots=True)
class Message:
    """What one side of a conversation says; the roles are those of `tokenizer.markers`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages of several roles, of which a language model learns the answers; an example of the kind text."""

    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """The transcript, each message after its role; a tokenizer may spell its markers otherwise."""
        return "".join(f"<{message.role}>{message.content}" for message in self.messages)

    @property
    def opening(self) -> str:
        """What comes before the first answer."""
        roles = [message.role for message in self.messages]
        first = roles.index(ANSWER) if ANSWER in roles else len(roles)
        return Conversation(self.messages[:first]).text


Example = Text | Pair | Labelled | Conversation
