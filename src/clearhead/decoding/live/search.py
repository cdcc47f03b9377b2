"""Beam searches that come and go: texts enter at any step, and share the products of all that are searched."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import S, Stepper, pad
from clearhead.decoding.search import Beam, Hypothesis, grow, renumber, start_beam


@dataclass(eq=False)
class Search:
    """One text that is searched for; done when it has found something, or has an error."""

    prompt: list[int]
    settings: DecodingConfig
    ends: tuple[int, ...]
    source: list[int] | None = None
    longest: int | None = None  # prompt and text together
    found: list[Hypothesis] | None = None
    error: Exception | None = None
    is_cancelled: bool = False
    deadline: float = float("inf")
    beam: Beam | None = None

    @property
    def width(self) -> int:
        """The rows that it needs."""
        return self.settings.beam or 1

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.found is not None or self.error is not None or self.is_cancelled

    def start(self, row: int) -> None:
        """Before the first token; the time limit counts from here."""
        self.beam = start_beam(self.prompt, row, self.settings, self.longest, None)
        self.deadline = time.monotonic() + (self.settings.seconds or float("inf"))

    @property
    def rows(self) -> list[int]:
        """The rows of the state that its beginnings continue."""
        assert self.beam is not None
        return [text.row for text in self.beam.running]

    def take(self, logits: Tensor) -> None:
        """One more token of every beginning, by its logits (rows, vocabulary)."""
        assert self.beam is not None
        try:
            grow([self.beam], logits.float().cpu(), self.settings, self.ends)
            if time.monotonic() >= self.deadline:
                self.beam.give_up()
            if self.beam.is_done():
                self.found = self.beam.finished[: self.settings.n_best]
        except Exception as error:
            self.error = error


class LiveSearch(Generic[S]):
    """Searches side by side, in up to `rows` rows of a batch; several may share the searches that wait."""

    def __init__(self, model: Stepper[S], rows: int, waiting: deque[Search] | None = None) -> None:
        self.model, self.rows = model, rows
        self.waiting = deque[Search]() if waiting is None else waiting
        self.active: list[Search] = []
        self.state: S | None = None

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self.waiting or self.active)

    @property
    def used(self) -> int:
        """Texts that are searched for."""
        return len(self.active)

    def add(self, search: Search) -> None:
        """Queues a search; it joins at a later step that has room."""
        self.waiting.append(search)

    def give_up(self, error: Exception) -> None:
        """Ends every search, after an error that belongs to none of them."""
        for search in self.active:
            search.error = error
        self.active, self.state = [], None

    @torch.inference_mode()
    def step(self) -> None:
        """One more token of every beginning, and the first ones of searches that join."""
        self.leave()
        if self.state is not None:
            self.extend(self.active, self.state)
        if new := self.next_to_join():
            self.join(new)
        self.leave()

    def leave(self) -> None:
        """Removes searches that are done, and the rows that no beginning continues."""
        self.active = [search for search in self.active if not search.is_done]
        if not self.active:
            self.state = None
        elif self.state is not None:
            self.state.select(torch.tensor([row for search in self.active for row in search.rows]))
            renumber([search.beam for search in self.active if search.beam is not None])

    def extend(self, searches: Sequence[Search], state: S) -> None:
        """One more token of every beginning; after an error of each search by itself, so that few of them fail."""
        texts = [text for search in searches if search.beam is not None for text in search.beam.running]
        try:
            Z = self.model.step(torch.tensor([text.ids[-1:] for text in texts]), state, last=True)[:, -1]
        except Exception as error:
            if len(searches) == 1:
                searches[0].error = error
            else:
                self.extend_each(searches, state)
            return
        sizes = [len(search.rows) for search in searches]
        for search, logits in zip(searches, Z.split(sizes), strict=True):
            search.take(logits)

    def extend_each(self, searches: Sequence[Search], state: S) -> None:
        """One more token of every search by itself."""
        self.active, self.state = [], None
        for search in searches:
            alone = state.copy(torch.tensor(search.rows))
            assert search.beam is not None
            renumber([search.beam])
            self.extend([search], alone)
            self.take_in([search], alone)

    def next_to_join(self) -> list[Search]:
        """The waiting searches that there is room for; one always fits."""
        room, new = self.rows - sum(search.width for search in self.active), list[Search]()
        while self.waiting and (self.waiting[0].width <= room or not (self.active or new)):
            search = self.waiting.popleft()
            if not search.is_done:
                room -= search.width
                new.append(search)
        return new

    def join(self, new: list[Search]) -> None:
        """Reads the prompts and sources of new searches; after an error each by itself."""
        try:
            for row, search in enumerate(new):
                search.start(row)
            tokens, counts = pad([search.prompt for search in new])
            sources = [search.source for search in new if search.source is not None]
            source, source_counts = pad(sources) if sources else (None, None)
            capacity = max(len(search.prompt) + search.beam.longest for search in new if search.beam)
            state = self.model.start(len(new), capacity, source, source_counts)
            Z = self.model.step(tokens, state, counts, last=True)[:, -1]
        except Exception as error:
            if len(new) == 1:
                new[0].error = error
                return
            for search in new:
                self.join([search])
            return
        for search, logits in zip(new, Z.split(1), strict=True):
            search.take(logits)
        self.take_in(new, state)

    def take_in(self, searches: list[Search], state: S) -> None:
        """Adds searches, whose rows count from 0, and their state to those that are active."""
        if self.state is None:
            self.state = state
        else:
            first = len(self.state.lengths)
            for search in searches:
                assert search.beam is not None
                search.beam.shift(first)
            self.state.join(state)
        self.active += searches
