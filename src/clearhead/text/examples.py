"""What every source gives: a piece of text, a pair of texts, or a text with its label.

These are the only shapes in which text travels from the sources to the tokenizers and the batches.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "pair", "labelled"]
Split = Literal["train", "validation", "test"]


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


Example = Text | Pair | Labelled
