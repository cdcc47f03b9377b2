"""The progress of the preparation: records for a listener; only the command line prints them."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PreparationProgress:
    """How much has been read so far for one thing that is being made: "tokenizer", or the name of a split."""

    stage: str
    examples: int
    characters: int


ProgressListener = Callable[[PreparationProgress], None]


def ignore_progress(progress: PreparationProgress) -> None:
    """A listener that ignores its records."""
