"""Passes that the page may still ask about: bounded in number of bytes and in time, the least used go first."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from clearhead.errors import InputError
from clearhead.serving.passes import Pass

MOST_BYTES = 1 << 30
SECONDS = 30 * 60.0


@dataclass
class Kept:
    """A pass and when it was last looked at."""

    looked_at: Pass
    when: float


class Store:
    """Keeps passes under names that cannot be guessed."""

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most_bytes, self.seconds, self.clock = most_bytes, seconds, clock
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """What all of them take."""
        return sum(kept.looked_at.bytes for kept in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, new: Pass) -> str:
        """Keeps a pass, the newest even if it alone is over the limit; returns its name."""
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[name] = Kept(new, self.clock())
            self._expire()
            while self.bytes > self.most_bytes and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return name

    def get(self, name: str) -> Pass:
        """A pass by its name, which is thereby the most recently used."""
        with self._lock:
            self._expire()
            kept = self._kept.get(name)
            if kept is None:
                raise Gone("This pass is no longer kept.\nAsk again with the same text.")
            kept.when = self.clock()
            self._kept.move_to_end(name)
            return kept.looked_at

    def _expire(self) -> None:
        limit = self.clock() - self.seconds
        for name in [name for name, kept in self._kept.items() if kept.when < limit]:
            del self._kept[name]


class Gone(InputError):
    """What was asked about is not kept any more."""
