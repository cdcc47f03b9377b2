"""Many texts generated at once: prompts enter, one token of every text leaves per step.

Texts of different length share a batch over the cache's own lengths. A finished text leaves between two steps
and a waiting one joins. The model is anything with `start` and `step`; a faster stepper can replace it.
"""

import secrets
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.sampling import (
    best_few,
    best_first,
    constrain,
    draw,
    has_rules,
    likeliest,
    log_probabilities,
    narrow,
    number,
)
from clearhead.decoding.stopping import Reason
from clearhead.decoding.threads import free_cores
from clearhead.errors import InputError
from clearhead.models.model import State

# Plain texts are written some tokens ahead: as many as take this long, so that nobody sees them arrive in bursts.
AHEAD_SECONDS, MOST_AHEAD = 0.01, 16
OF_ONE_TEXT = {"seed", "stop", "seconds", "logprobs", "max_tokens"}  # settings that no sampling rule reads


S = TypeVar("S", bound=State)


class Stepper(Protocol[S]):
    """A model that generates, or what takes its place."""

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> S:
        """An empty state for so many texts of at most `capacity` tokens."""

    def step(self, tokens: Tensor, state: S, counts: Tensor | None = None, last: bool = False) -> Tensor:
        """Adds tokens (b, n) to the state and gives their logits."""


@runtime_checkable
class GreedyStepper(Stepper[S], Protocol[S]):
    """A stepper that can take several steps at once if the likeliest token always follows."""

    def write(self, tokens: Tensor, state: S, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Adds tokens (b, 1), then the likeliest next one, and so on: `count` of them (count, b), and their log P.

        None if the texts must be written token by token.
        """


class Grammar(Protocol):
    """What a text may still become, as a rule over its next token."""

    def mask(self, Z: Tensor) -> Tensor:
        """The logits (vocabulary,) with −∞ for tokens that may not follow."""

    def take(self, token: int) -> None:
        """One more token of the text."""


@dataclass(frozen=True)
class Token:
    """One written token, with log-probabilities over the whole vocabulary before any rule."""

    id: int
    logprob: float
    top: list[tuple[int, float]] = field(default_factory=list)


@dataclass(eq=False)
class Draft:
    """One text in progress; its settings have nothing left open."""

    prompt: list[int]
    settings: DecodingConfig
    source: list[int] | None = None
    longest: int | None = None  # prompt and text together; if omitted, the context of the engine
    ids: list[int] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    reason: Reason | None = None
    ends: tuple[int, ...] | None = None  # ids at which it is over; if omitted, those of the engine
    grammar: Grammar | None = None
    seed: int = field(init=False)
    rules: str = field(init=False)  # equal for texts whose next tokens are chosen by the same rules
    deadline: float = float("inf")

    def __post_init__(self) -> None:
        self.seed = secrets.randbits(62) if self.settings.seed is None else self.settings.seed
        self.rules = f"{self.settings.model_dump_json(exclude=OF_ONE_TEXT)} {self.ends}"

    @cached_property
    def is_plain(self) -> bool:
        """Whether its next token is simply the likeliest."""
        settings = self.settings
        return not (settings.temperature or settings.logprobs or has_rules(settings) or self.grammar)

    def start_clock(self) -> None:
        """The time limit counts from here: waiting for a slot does not use it up."""
        if self.settings.seconds is not None:
            self.deadline = time.monotonic() + self.settings.seconds

    def add(self, token: Token) -> None:
        """One more token."""
        self.ids.append(token.id)
        self.tokens.append(token)
        if self.grammar is not None:
            self.grammar.take(token.id)

    def stop(self) -> None:
        """Ends the text here: a stop string was found in what its tokens spell."""
        self.reason = "stop"


class Engine(Generic[S]):
    """Generates texts side by side, up to `slots` at a time."""

    def __init__(self, model: Stepper[S], end: Sequence[int], context: int | None, slots: int = 32) -> None:
        self.model, self.end, self.context, self.slots = model, tuple(end), context, slots
        self.writes = isinstance(model, GreedyStepper)
        self.waiting: deque[Draft] = deque()
        self.running: list[Draft] = []
        self.state: S | None = None
        self.ahead: deque[list[Token]] = (
            deque()
        )  # the next tokens of the running texts, which the state has already
        self.count_ahead = 1  # tokens that are written at once

    def add(self, text: Draft) -> None:
        """Queues a text; it joins at a later step that has room."""
        check_prompt(text.prompt, self.limit(text))
        self.waiting.append(text)

    def limit(self, text: Draft) -> int | None:
        """How many tokens prompt and text may have together."""
        return self.context if text.longest is None else text.longest

    def ends_of(self, text: Draft) -> tuple[int, ...]:
        """The ids at which a text is over."""
        return self.end if text.ends is None else text.ends

    @property
    def is_busy(self) -> bool:
        """Whether there is a text that is not done."""
        return bool(self.waiting) or any(text.reason is None for text in self.running)

    @free_cores()
    @torch.inference_mode()
    def step(self) -> list[tuple[Draft, Token]]:
        """The first token of every text that joins, or, when none does, one more token of every other.

        Before that, texts that are done have left.
        """
        self.leave()
        if self.ahead:
            return self.take(self.running, self.ahead.popleft())
        if new := self.next_to_join():
            return self.choose(new, self.join(new))
        if self.state is None:
            return []
        tokens = torch.tensor([[text.ids[-1]] for text in self.running])
        if self.write_ahead(tokens, self.state):
            return self.take(self.running, self.ahead.popleft())
        return self.choose(self.running, self.model.step(tokens, self.state, last=True)[:, -1])

    def write_ahead(self, tokens: Tensor, state: S) -> bool:
        """Writes the next tokens of all texts at once, if the model can and the likeliest ones are asked for."""
        if not self.writes or not all(text.is_plain for text in self.running):
            return False
        assert isinstance(self.model, GreedyStepper)
        count = min(self.count_ahead, *(self.room(text) for text in self.running))
        start = time.perf_counter()
        found = self.model.write(tokens, state, count)
        if found is None:
            return False
        each = (time.perf_counter() - start) / count
        self.count_ahead = max(1, min(MOST_AHEAD, int(AHEAD_SECONDS / each)))
        self.ahead += [list(map(Token, *row)) for row in zip(*(X.tolist() for X in found), strict=True)]
        return True

    def room(self, text: Draft) -> int:
        """How many more tokens a text may have."""
        limit, written = self.limit(text), len(text.ids)
        most = text.settings.max_tokens - written
        return most if limit is None else min(most, limit - len(text.prompt) - written)

    def leave(self) -> None:
        """Removes texts that are done; the last ones take their places, so that few rows are copied."""
        if all(text.reason is None for text in self.running):
            return
        rows = list(range(len(self.running)))
        for row in reversed(range(len(rows))):
            if self.running[row].reason is not None:
                last, last_text = rows.pop(), self.running.pop()
                if row < len(rows):
                    rows[row], self.running[row] = last, last_text
        self.ahead = deque([tokens[row] for row in rows] for tokens in self.ahead if rows)
        if not rows and not self.keeps_room:
            self.state = None
        elif self.state is not None:
            self.state.select(torch.tensor(rows, dtype=torch.long))

    @property
    def keeps_room(self) -> bool:
        """Whether the state stays when all texts have left, for the keys and values of the next ones."""
        return False

    def next_to_join(self) -> list[Draft]:
        """The waiting texts that join now.

        If many wait, a quarter of the slots must be free: prompts that are read together cost less.
        """
        room = self.slots - len(self.running)
        enough = min(len(self.waiting), max(1, self.slots // 4))
        return [self.waiting.popleft() for _ in range(min(room, len(self.waiting)))] if room >= enough else []

    def join(self, new: list[Draft]) -> Tensor:
        """Reads the prompts of new texts: the logits that follow them (b, vocabulary)."""
        prompts, counts = pad([text.prompt for text in new])
        sources = [text.source for text in new if text.source is not None]
        source, source_counts = pad(sources) if sources else (None, None)
        capacity = max(
            min(len(text.prompt) + text.settings.max_tokens, self.limit(text) or sys.maxsize) for text in new
        )
        for text in new:
            text.start_clock()
        state = self.model.start(len(new), capacity, source, source_counts)
        logits = self.model.step(prompts, state, counts, last=True)[:, -1]
        self.take_in(new, state)
        return logits

    def take_in(self, texts: Sequence[Draft], state: S) -> None:
        """Adds texts and their state to those that are written."""
        if self.state is None:
            self.state = state
        else:
            self.state.join(state)
        self.running += texts

    def choose(self, texts: list[Draft], logits: Tensor) -> list[tuple[Draft, Token]]:
        """The next token of each text from its logits (b, vocabulary)."""
        logits = logits.float()
        best = best_few(logits, 1) if all(text.is_plain for text in texts) else None
        if best is None:
            tokens = self.choose_by_rules(texts, logits)
        else:
            tokens = list(map(Token, best[0][:, 0].tolist(), best[1][:, 0].tolist()))
        return self.take(texts, tokens)

    def take(self, texts: list[Draft], tokens: list[Token]) -> list[tuple[Draft, Token]]:
        """Adds a token to each text, and ends those that are done."""
        now = time.monotonic()
        for text, token in zip(texts, tokens, strict=True):
            text.add(token)
            text.reason = self.why_done(text, now)
        return list(zip(texts, tokens, strict=True))

    def choose_by_rules(self, texts: list[Draft], logits: Tensor) -> list[Token]:
        """The next tokens, each by its text's own rules."""
        log_P = log_probabilities(logits)
        chosen = self.pick(texts, logits)
        logprobs = log_P.gather(1, chosen[:, None])[:, 0].tolist()
        return [
            Token(id, logprob, alternatives(log_P[row], texts[row].settings.logprobs))
            for row, (id, logprob) in enumerate(zip(chosen.tolist(), logprobs, strict=True))
        ]

    def pick(self, texts: list[Draft], logits: Tensor) -> Tensor:
        """The ids (b,); texts with the same rules are treated together."""
        groups: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            groups.setdefault(text.rules, []).append(row)
        if len(groups) == 1:
            return self.pick_alike(texts, logits)
        chosen = torch.zeros(len(texts), dtype=torch.long, device=logits.device)
        for rows in groups.values():
            chosen[rows] = self.pick_alike([texts[row] for row in rows], logits[rows])
        return chosen

    def pick_alike(self, texts: list[Draft], Z: Tensor) -> Tensor:
        """The ids (b,) of texts with the same rules."""
        settings, end = texts[0].settings, self.ends_of(texts[0])
        Z = constrain(Z, settings, [text.prompt for text in texts], [text.ids for text in texts], end)
        if any(text.grammar is not None for text in texts):
            Z = torch.stack(
                [
                    row if text.grammar is None else text.grammar.mask(row)
                    for text, row in zip(texts, Z, strict=True)
                ]
            )
        if not settings.temperature:
            return likeliest(Z)
        numbers = [number(text.seed, len(text.ids)) for text in texts]
        return draw(narrow(Z, settings), torch.tensor(numbers, dtype=torch.double))

    def why_done(self, text: Draft, now: float) -> Reason | None:
        """The reason to stop after the last token, or None."""
        if text.ids[-1] in self.ends_of(text):
            return "end"
        if self.room(text) <= 0:
            return "length" if len(text.ids) >= text.settings.max_tokens else "context"
        return "time" if now >= text.deadline else None


def alternatives(log_P: Tensor, count: int) -> list[tuple[int, float]]:
    """The likeliest ids with their log-probabilities (vocabulary,), the likeliest first."""
    best = islice(best_first(log_P, count), count) if count else ()
    return [(id, logprob) for logprob, id in best]


def check_prompt(prompt: Sequence[int], context: int | None) -> None:
    """Rejects a prompt that is empty, or that leaves no room for another token."""
    if not prompt:
        raise InputError("The prompt is empty.\nStart it with the beginning-of-sequence token.")
    if context is not None and len(prompt) >= context:
        raise InputError(
            f"The prompt has {len(prompt)} tokens, but the model's context of {context} must also fit what follows.\n"
            "Shorten it; nothing is truncated silently."
        )


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
    """Rows of ids as a tensor (b, n), zeros to the right; and how many are real in each, None when all."""
    n = max(len(row) for row in rows)
    counts = torch.tensor([len(row) for row in rows])
    tokens = torch.tensor([[*row, *[0] * (n - len(row))] for row in rows], dtype=torch.long)
    return tokens, None if bool((counts == n).all()) else counts
