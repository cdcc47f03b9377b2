"""Many texts written at once: prompts enter, one token of every text leaves per step.

Texts of different length share a batch over the cache's own lengths; a finished text leaves between two steps
and a waiting one joins. The model is anything that offers `start` and `step`; a faster one can stand in its place.
"""

import secrets
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.sampling import apply_rules, draw, likeliest, number
from clearhead.decoding.stopping import Reason
from clearhead.errors import InputError


class State(Protocol):
    """What a model knows of the texts it is writing; a key-value cache, or the hidden vector of an RNN."""

    @property
    def lengths(self) -> Tensor:
        """Tokens of each text so far."""

    def select(self, rows: Tensor) -> None:
        """Keeps these texts, in this order."""


class JoinableState(State, Protocol):
    """A state that other texts can join."""

    def join(self, other: "JoinableState") -> None:
        """Adds the texts of another state."""


class Stepper(Protocol):
    """A model that writes: every language model and translator here."""

    def start(
        self, batch: int, capacity: int, source: Tensor | None = None, source_counts: Tensor | None = None
    ) -> JoinableState:
        """An empty state."""

    def step(
        self, tokens: Tensor, state: JoinableState, counts: Tensor | None = None, last: bool = False
    ) -> Tensor:
        """Adds tokens (b, n) to the state and gives their logits."""


@dataclass
class Token:
    """One written token, with log-probabilities over the whole vocabulary before any rule."""

    id: int
    logprob: float
    top: list[tuple[int, float]] = field(default_factory=list)


@dataclass(eq=False)
class Text:
    """One text on its way."""

    prompt: list[int]
    settings: DecodingConfig
    source: list[int] | None = None
    tokens: list[Token] = field(default_factory=list)
    reason: Reason | None = None
    seed: int = field(init=False)
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.seed = secrets.randbits(62) if self.settings.seed is None else self.settings.seed
        self.deadline = (
            float("inf") if self.settings.seconds is None else time.monotonic() + self.settings.seconds
        )

    @property
    def ids(self) -> list[int]:
        """The tokens written so far."""
        return [token.id for token in self.tokens]

    def stop(self) -> None:
        """Ends the text here: a stop string was found in what its tokens spell."""
        self.reason = "stop"


class Engine:
    """Writes texts side by side, up to `slots` at a time."""

    def __init__(self, model: Stepper, end: Sequence[int], context: int | None, slots: int = 32) -> None:
        self.model, self.end, self.context, self.slots = model, tuple(end), context, slots
        self.waiting: deque[Text] = deque()
        self.running: list[Text] = []
        self.state: JoinableState | None = None

    def add(self, text: Text) -> None:
        """Queues a text; it joins at the next step that has room."""
        if not text.prompt:
            raise InputError(
                "A prompt of no tokens says nothing.\nBegin with the beginning-of-sequence token."
            )
        if self.context is not None and len(text.prompt) > self.context:
            raise InputError(
                f"The prompt has {len(text.prompt)} tokens, but the model's context is {self.context}.\n"
                "Shorten it; nothing is cut off silently."
            )
        self.waiting.append(text)

    @property
    def is_busy(self) -> bool:
        """Whether there is a text that is not done."""
        return bool(self.waiting) or any(text.reason is None for text in self.running)

    @torch.inference_mode()
    def step(self) -> list[tuple[Text, Token]]:
        """One more token for every running text, after the done ones have left and waiting ones have joined."""
        self.leave()
        logits = self.join()
        if self.running and logits is None:
            assert self.state is not None
            tokens = torch.tensor([[text.tokens[-1].id] for text in self.running])
            logits = self.model.step(tokens, self.state, last=True)[:, -1]
            return self.choose(self.running, logits)
        return [] if logits is None else self.choose(self.running[-len(logits) :], logits)

    def leave(self) -> None:
        """Lets go of texts that are done; the last ones take their places, so that few rows are copied."""
        rows = list(range(len(self.running)))
        for row in reversed(range(len(rows))):
            if self.running[row].reason is not None:
                last = rows.pop()
                last_text = self.running.pop()
                if row < len(rows):
                    rows[row], self.running[row] = last, last_text
        if self.state is not None and len(rows) < len(self.state.lengths):
            self.state.select(torch.tensor(rows, dtype=torch.long))

    def join(self) -> Tensor | None:
        """Reads the prompts of waiting texts, as many as there is room for; their next logits (b, vocabulary)."""
        room = min(self.slots - len(self.running), len(self.waiting))
        new = [self.waiting.popleft() for _ in range(room)]
        if not new:
            return None
        prompts, counts = pad([text.prompt for text in new])
        sources = [text.source for text in new if text.source is not None]
        source, source_counts = pad(sources) if sources else (None, None)
        state = self.model.start(len(new), self.capacity(new), source, source_counts)
        logits = self.model.step(prompts, state, counts, last=True)[:, -1]
        if self.state is None or not self.running:
            self.state = state
        else:
            self.state.join(state)
        self.running += new
        return logits

    def capacity(self, new: list[Text]) -> int:
        """Room for every text to reach its limit."""
        wanted = max(
            len(text.prompt) + text.settings.max_tokens for text in [*new, *self.running, *self.waiting]
        )
        return wanted if self.context is None else min(wanted, self.context)

    def choose(self, texts: list[Text], logits: Tensor) -> list[tuple[Text, Token]]:
        """The next token of each text from its logits (b, vocabulary)."""
        logits = logits.float()
        log_P = torch.log_softmax(logits, -1)
        chosen = self.pick(texts, logits)
        steps = []
        for row, (text, token_id) in enumerate(zip(texts, chosen.tolist(), strict=True)):
            token = Token(token_id, float(log_P[row, token_id]))
            if text.settings.logprobs:
                best = log_P[row].topk(min(text.settings.logprobs, log_P.shape[1]))
                token.top = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
            text.tokens.append(token)
            text.reason = self.why_done(text)
            steps.append((text, token))
        return steps

    def pick(self, texts: list[Text], logits: Tensor) -> Tensor:
        """The ids (b,), texts of equal settings and length treated together."""
        groups: dict[tuple[int, int], list[int]] = {}
        for row, text in enumerate(texts):
            groups.setdefault((id(text.settings), len(text.tokens)), []).append(row)
        chosen = torch.zeros(len(texts), dtype=torch.long)
        for rows in groups.values():
            group = [texts[row] for row in rows]
            settings = group[0].settings
            Z = logits if len(rows) == len(texts) else logits[rows]
            Z = apply_rules(
                Z, settings, [text.prompt for text in group], [text.ids for text in group], self.end
            )
            if settings.temperature:
                numbers = torch.tensor(
                    [number(text.seed, len(text.tokens)) for text in group], dtype=torch.double
                )
                chosen[rows] = draw(Z, numbers).cpu()
            else:
                chosen[rows] = likeliest(Z).cpu()
        return chosen

    def why_done(self, text: Text) -> Reason | None:
        """The reason to stop after the newest token, or None."""
        if text.tokens[-1].id in self.end:
            return "end"
        if len(text.tokens) >= text.settings.max_tokens:
            return "length"
        if self.context is not None and len(text.prompt) + len(text.tokens) >= self.context:
            return "context"
        return "time" if time.monotonic() > text.deadline else None


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
    """Rows of ids as one tensor (b, n), zeros to the right, and how many of each row are real; None when all are."""
    n = max(len(row) for row in rows)
    counts = torch.tensor([len(row) for row in rows])
    tokens = torch.tensor([[*row, *[0] * (n - len(row))] for row in rows], dtype=torch.long)
    return tokens, None if bool((counts == n).all()) else counts
