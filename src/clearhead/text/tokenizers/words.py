"""Words of texts enter; ids leave, with the place of the token at which the label of each word is read.

Each word is encoded by itself, with a space before all but the first of its text, so that the tokens of a word do not
depend on its neighbours. A label is read at the word's first token, as BERT does (Devlin et al., 2019, section 5.3); if
a token is the space itself, as in a tokenizer of characters, at the one after it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clearhead.text.tokenizers.tokenizer import Tokenizer

NOWHERE = -1  # the place of a word that has no token


class EncodedWords(NamedTuple):
    """The ids of some texts in one array, how many each has, and for each word the place of its label in the array."""

    ids: NDArray[np.integer]
    counts: NDArray[np.int64]  # (texts,)
    places: NDArray[np.int64]  # (words of all texts,)


def encode_words(tokenizer: Tokenizer, texts: Sequence[Sequence[str]]) -> EncodedWords:
    """The tokens of texts that are lists of words."""
    spelled = [f" {word}" if at else word for words in texts for at, word in enumerate(words)]
    ids, sizes = tokenizer.encode_joined(spelled)
    starts = np.cumsum(sizes) - sizes
    space = tokenizer.encode(" ")
    places = np.where(sizes > 0, starts, NOWHERE)
    if len(space) == 1 and len(ids):
        is_space = (ids[np.minimum(starts, len(ids) - 1)] == space[0]) & (sizes > 1)
        places = np.where(is_space, starts + 1, places)
    owners = np.repeat(np.arange(len(texts)), [len(words) for words in texts])
    counts = np.bincount(owners, sizes, len(texts)).astype(np.int64)
    return EncodedWords(ids, counts, places)
