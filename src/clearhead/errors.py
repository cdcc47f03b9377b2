"""The errors that a user can meet.

ClearheadError              anything below; the command line shows it without a traceback
├── ConfigError             a setting, or a combination of settings, that cannot work
├── DataError               a file or corpus that cannot be read as asked
├── TokenizerError          a tokenizer that cannot be trained, loaded or applied
├── TrainingError           a run that cannot continue
├── CheckpointError         a checkpoint that is missing, damaged or of another run
├── ModelFolderError        a model, in our format or another, that is missing, damaged or does not fit
└── InputError              tensors, texts or requests that the model cannot take

Every message says what happened, where, with the values, and what to do next.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class ClearheadError(Exception):
    """Anything that a user can cause and fix."""


class ConfigError(ClearheadError):
    """A setting, or a combination of settings, that cannot work."""


class DataError(ClearheadError):
    """A file or corpus that cannot be read as asked."""


class TokenizerError(ClearheadError):
    """A tokenizer that cannot be trained, loaded or applied."""


class TrainingError(ClearheadError):
    """A run that cannot continue."""


class CheckpointError(ClearheadError):
    """A checkpoint that is missing, damaged or of another run."""


class ModelFolderError(ClearheadError):
    """A model, in our format or another, that is missing, damaged or does not fit."""


class InputError(ClearheadError):
    """Tensors, texts or requests that the model cannot take."""


def suggest(name: str, known: Iterable[str]) -> str:
    """The sentence that helps someone who wrote an unknown name: the nearest known one, then the others."""
    names = sorted(known)
    if not names:
        return "None is known."
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"Did you mean {near[0]}? " if near else ""
    if len(names) > 60:  # too many to read: the most similar ones
        names = [*get_close_matches(name, names, n=12, cutoff=0.0), f"and {len(names) - 12} more"]
    return f"{guess}Known: {', '.join(names)}."


def first_few(names: Sequence[str], count: int = 4) -> str:
    """The first of many names, for a message."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")
