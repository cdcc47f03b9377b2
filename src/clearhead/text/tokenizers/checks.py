"""What enters a tokenizer from outside, texts and ids, checked before the library sees it."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import InputError, TokenizerError


class CheckedTexts:
    """Texts for a trainer, checked and counted on their way."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self.texts = self.characters = 0
        self.error: Exception | None = None  # of reading the texts, not of the trainer

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self._texts:
                self.texts += 1
                self.characters += len(checked(text))
                yield text
            if not self.characters:
                raise TokenizerError(
                    f"There is no text to train a tokenizer on: {self.texts} texts, all empty."
                )
        except Exception as error:
            self.error = error
            raise


def checked(text: str) -> str:
    """The text, unless it is not one or contains half a character of UTF-16, which UTF-8 cannot represent."""
    if not isinstance(text, str):
        raise InputError(f"Expected a text, not {type(text).__name__}: {text!r:.60}.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"Character {error.start} of the text is {text[error.start]!r}, half of a surrogate pair "
                "and not a character.\nRead the text again with the right encoding."
            ) from None
    return text


def plain(ids: Sequence[int] | NDArray[np.integer]) -> list[int]:
    plain = ids.tolist() if isinstance(ids, np.ndarray) else [int(token) for token in ids]
    if plain and not 0 <= min(plain) <= max(plain) < 1 << 32:
        raise InputError(f"The ids go from {min(plain)} to {max(plain)}; an id of a token is never negative.")
    return plain
