"""Passes that the page may still ask about: limited in bytes and in time; the least recently used are dropped."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from clearhead.errors import InputError
from clearhead.inspection.passes import Pass

CACHE_BYTES = 1 << 30
CACHE_SECONDS = 30 * 60.0


@dataclass
class Entry:
    """A pass, and when it was last used."""

    captured: Pass
    used_at: float


class PassExpired(InputError):
    """The pass that a request names is no longer kept."""


class PassCache:
    """Keeps passes under names that cannot be guessed."""

    def __init__(
        self,
        most_bytes: int = CACHE_BYTES,
        seconds: float = CACHE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most_bytes, self.seconds, self.clock = most_bytes, seconds, clock
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """The size of all passes together."""
        return sum(entry.captured.bytes for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, captured: Pass) -> str:
        """Keeps a pass, the latest even if it alone is over the limit; returns its name."""
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._entries[name] = Entry(captured, self.clock())
            self._expire()
            while self.bytes > self.most_bytes and len(self._entries) > 1:
                self._entries.popitem(last=False)
        return name

    def get(self, name: str) -> Pass:
        """A pass by its name, which becomes the most recently used."""
        with self._lock:
            self._expire()
            entry = self._entries.get(name)
            if entry is None:
                raise PassExpired("This pass is no longer kept.\nSend the same text again.")
            entry.used_at = self.clock()
            self._entries.move_to_end(name)
            return entry.captured

    def _expire(self) -> None:
        limit = self.clock() - self.seconds
        for name in [name for name, entry in self._entries.items() if entry.used_at < limit]:
            del self._entries[name]
