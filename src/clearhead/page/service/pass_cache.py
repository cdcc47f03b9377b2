"""Passes that the page may still ask about: limited in bytes and in time; the least recently used are dropped.

A pass counts with all that it may take, also for what is computed from it later (see `inspection.pass_trace`).
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from clearhead.errors import InputError
from clearhead.inspection.passes import Pass

CACHE_BYTES = 1 << 30
CACHE_SECONDS = 30 * 60.0


@dataclass
class Entry:
    """A pass, the question that it answers, its answer, and when it was last used."""

    captured: Pass
    used_at: float
    question: str | None = None
    answer: dict[str, Any] = field(default_factory=dict)


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
        """What all passes together may take."""
        return sum(self.most(entry.captured) for entry in self._entries.values())

    def most(self, captured: Pass) -> int:
        """What a pass may take."""
        return captured.trace.bytes.most(self.most_bytes)

    def __len__(self) -> int:
        return len(self._entries)

    def reserve(self, count: int) -> None:
        """Makes room for a pass that may take so many bytes, before it runs."""
        with self._lock:
            self._expire()
            while self._entries and self.bytes + count > self.most_bytes:
                self._entries.popitem(last=False)

    def add(self, captured: Pass, question: str | None = None) -> str:
        """Keeps a pass, the latest even if it alone is over the limit; returns its name."""
        name = secrets.token_urlsafe(12)
        self.reserve(self.most(captured))
        with self._lock:
            self._entries[name] = Entry(captured, self.clock(), question)
        return name

    def get(self, name: str) -> Pass:
        """A pass by its name, which becomes the most recently used."""
        return self.entry(name).captured

    def entry(self, name: str) -> Entry:
        """The same, with its question and answer."""
        with self._lock:
            self._expire()
            entry = self._entries.get(name)
            if entry is None:
                raise PassExpired("This pass is no longer kept.\nSend the same text again.")
            entry.used_at = self.clock()
            self._entries.move_to_end(name)
            return entry

    def find(self, question: str) -> dict[str, Any] | None:
        """The answer to a question that was asked before, if its pass is still kept."""
        names = [name for name, entry in list(self._entries.items()) if entry.question == question]
        try:
            return self.entry(names[0]).answer if names else None
        except PassExpired:
            return None

    def _expire(self) -> None:
        limit = self.clock() - self.seconds
        for name in [name for name, entry in self._entries.items() if entry.used_at < limit]:
            del self._entries[name]
