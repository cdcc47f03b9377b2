"""Rows of ids of different length, joined in one array: select, truncate, divide and frame them.

No loop over examples: a corpus of any size passes through here in chunks, and each is a few array operations.
"""

from dataclasses import dataclass, replace

import numpy as np

from clearhead.data.frames import Frame
from clearhead.data.order import Integers, Words, scramble
from clearhead.data.shards.columns import Claims, Ids

Joined = tuple[Ids, Integers]  # the ids of some texts in one array, and how many each has


@dataclass(frozen=True)
class EncodedExamples:
    """Some examples: the ids of each column joined, how many each example has, hashes, labels.

    An example has one label, unless `label_counts` says how many.
    """

    ids: tuple[Ids, ...]
    counts: tuple[Integers, ...]
    hashes: Words  # (examples, 1 or 2)
    labels: Integers | None = None
    label_counts: Integers | None = None


def select(encoded: EncodedExamples, keep: Claims) -> EncodedExamples:
    """Some of the examples."""
    if keep.all():
        return encoded
    ids = tuple(flat[np.repeat(keep, n)] for flat, n in zip(encoded.ids, encoded.counts, strict=True))
    counts, labels, amounts = (
        tuple(counts[keep] for counts in encoded.counts),
        encoded.labels,
        encoded.label_counts,
    )
    if labels is not None:
        labels = labels[keep if amounts is None else np.repeat(keep, amounts)]
    amounts = None if amounts is None else amounts[keep]
    return EncodedExamples(ids, counts, encoded.hashes[keep], labels, amounts)


def truncate(encoded: EncodedExamples, limits: list[Integers]) -> EncodedExamples:
    """The examples, of each column no more than its limit, which each example has its own."""
    ids, counts = [], []
    for flat, amount, limit in zip(encoded.ids, encoded.counts, limits, strict=True):
        place = np.arange(len(flat)) - np.repeat(np.cumsum(amount) - amount, amount)
        ids.append(flat[place < np.repeat(limit, amount)])
        counts.append(np.minimum(amount, limit))
    return replace(encoded, ids=tuple(ids), counts=tuple(counts))


def shares_of_room(first: Integers, second: Integers, room: int) -> tuple[Integers, Integers]:
    """How much of two texts fits into the room they share: the longer one is shortened, to no less than half of it."""
    room = max(room, 0)
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return kept, np.minimum(second, room - kept)


def divide(encoded: EncodedExamples, limit: int) -> EncodedExamples:
    """The examples in parts of at most the limit; a part's hash distinguishes the first from those that follow."""
    (counts,) = encoded.counts
    parts = np.maximum(1, -(-counts // limit))
    part = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
    sizes = np.minimum(limit, np.repeat(counts, parts) - part * limit)
    mixed = np.repeat(encoded.hashes, parts, axis=0) ^ scramble(part.astype(np.uint64))[:, None]
    labels = None if encoded.labels is None else np.repeat(encoded.labels, parts)
    return EncodedExamples(encoded.ids, (sizes,), mixed, labels)


def wrap(flat: Ids, counts: Integers, frame: Frame, begins: Claims, ends: Claims) -> tuple[Ids, Integers]:
    """Each example with the frame's ids before it where it begins a document, and after it where it ends."""
    before, after = len(frame.before) * begins, len(frame.after) * ends
    longer = counts + before + after
    starts = np.cumsum(longer) - longer
    framed = np.empty(int(longer.sum()), flat.dtype)
    first = np.cumsum(counts) - counts
    framed[np.arange(len(flat)) + np.repeat(starts + before - first, counts)] = flat
    for offset, token in enumerate(frame.before):
        framed[starts[begins] + offset] = token
    for offset, token in enumerate(frame.after):
        framed[(starts + before + counts)[ends] + offset] = token
    return framed, longer
