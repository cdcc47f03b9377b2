"""What is held out of training: a share of the examples, chosen by their content.

The side of an example is a function of its input and the seed alone. So it does not depend on the order of
the files, examples with the same input (duplicates, or one source with two translations) fall on the same
side, and an example stays on its side when others are added.
"""

from collections.abc import Mapping
from functools import cache
from hashlib import blake2b

from clearhead.examples import Conversation, Example, Labelled, Pair, Split


def split_of(example: Example, shares: Mapping[str, float], seed: int = 1) -> Split:
    """The split that an example belongs to: validation from below, test from above, train between."""
    point = _point(_input(example), seed)
    if point < shares.get("validation", 0.0):
        return "validation"
    return "test" if point >= 1 - shares.get("test", 0.0) else "train"


def _input(example: Example) -> str:
    """The input, as opposed to the expected answer."""
    if isinstance(example, Conversation):
        return example.opening
    if isinstance(example, Labelled):
        return example.input
    return example.source if isinstance(example, Pair) else example.text


def _point(text: str, seed: int) -> float:
    """A number from 0 to 1 that looks random, and is the same for the same text and seed."""
    hasher = _seeded(seed).copy()
    hasher.update(text.encode())
    return int.from_bytes(hasher.digest(), "little") / 2**48


@cache
def _seeded(seed: int) -> blake2b:
    return blake2b(digest_size=6, salt=seed.to_bytes(16, "little"))
