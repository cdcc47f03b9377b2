"""What every source gives: a piece of text, a pair of texts, a text with its label, or a conversation.

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
    """A text and the name of its class."""

    text: str
    label: str


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
