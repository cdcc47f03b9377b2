"""What is known of the beginnings of earlier prompts: states enter, and leave for prompts that begin alike.

Only whole chunks are reused, so that a prompt is read at the same borders with and without a known prefix, and each
chunk by the same products: its keys and values have the same bits. Prompts share a prefix only under the same salt:
nobody learns from the time of an answer what somebody else has asked.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import count

import torch

from clearhead.layers.cache import DecoderState

MOST_BYTES = 256 << 20


class Prefixes:
    """Keeps the states of the latest prompts, up to a number of bytes."""

    def __init__(self, chunk: int, most_bytes: int = MOST_BYTES) -> None:
        self.chunk, self.most_bytes, self.bytes = chunk, most_bytes, 0
        self._kept: OrderedDict[int, tuple[bytes, Sequence[int], DecoderState]] = OrderedDict()
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, salt: bytes, prompt: Sequence[int]) -> DecoderState | None:
        """A copy of what is known of the longest beginning of a prompt; at least one token stays to be read."""
        best, best_length = None, 0
        for name, (owner, ids, _) in self._kept.items():
            same = common(ids, prompt) if owner == salt else 0
            length = min(same, len(prompt) - 1) // self.chunk * self.chunk
            if length > best_length:
                best, best_length = name, length
        if best is None:
            return None
        self._kept.move_to_end(best)
        state = self._kept[best][2].copy(torch.tensor([0]))
        state.truncate(torch.tensor([best_length]))
        return state

    def keep(self, salt: bytes, prompt: Sequence[int], state: object, row: int) -> None:
        """Remembers the whole chunks of a prompt from its row of a state, if that can be truncated."""
        length = len(prompt) // self.chunk * self.chunk
        if not length or not isinstance(state, DecoderState) or state.memory or not state.can_truncate:
            return
        ids = list(prompt[:length])
        for name, (owner, others, _) in list(self._kept.items()):
            if owner == salt and common(others, ids) == min(len(others), length):
                if len(others) >= length:
                    return
                self._forget(name)
        kept = state.copy(torch.tensor([row]))
        kept.truncate(torch.tensor([length]))
        self._kept[next(self._numbers)] = (salt, ids, kept)
        self.bytes += kept.cache.bytes
        while self.bytes > self.most_bytes:
            self._forget(next(iter(self._kept)))

    def _forget(self, name: int) -> None:
        self.bytes -= self._kept.pop(name)[2].cache.bytes


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two sequences begin with alike."""
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
