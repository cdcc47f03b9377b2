"""How far the preparation is: records for whoever listens; only the command line shows them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How much has been read so far for one thing that is being made: "tokenizer", or the name of a split."""

    stage: str
    examples: int
    characters: int


Listener = Callable[[Progress], None]


def unheard(progress: Progress) -> None:
    """A listener for those who do not want to know."""
