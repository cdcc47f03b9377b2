"""Beam search: the likeliest texts among those that a few best beginnings can become.

A hypothesis scores log P(text) / length^penalty, with the end token counted. The search of a text stops only
when no running hypothesis can still beat the ones to be returned: log P can only fall, so that
s / longest^penalty bounds what a beginning with sum s may reach.
"""

import itertools
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import S, Stepper, check_prompt, pad
from clearhead.decoding.sampling import best_few, best_first, constrain, has_rules, log_probabilities
from clearhead.decoding.stopping import Reason
from clearhead.decoding.threads import free_cores

Outcome = TypeVar("Outcome")
Given = ParamSpec("Given")
Steps = Generator[None, None, Outcome]  # something that is done in steps, between which others may work
Extension = tuple[float, int, int, float]  # log P of the text, its beginning, the next token, and its log P
Stops = Callable[[list[int]], bool]  # whether ids spell a stop string


@dataclass(frozen=True)
class Hypothesis:
    """A text that the search has found."""

    ids: list[int]
    logprobs: list[float]  # of each token, before any rule
    score: float  # what the search compares
    reason: Reason


@dataclass(slots=True)
class Beginning:
    """A text that is still being written, and its row of the model's state."""

    ids: list[int]
    logprobs: list[float]
    total: float  # log P of the text, under the rules
    row: int


@dataclass
class Beam:
    """The hypotheses of one text."""

    prompt: list[int]
    longest: int  # tokens at which every hypothesis ends
    limit: Reason  # why it ends there
    settings: DecodingConfig
    running: list[Beginning]  # the best first
    stops: Stops | None = None
    finished: list[Hypothesis] = field(default_factory=list)  # the best first

    @property
    def width(self) -> int:
        """How many beginnings run, and how many hypotheses are kept."""
        return self.settings.beam or 1

    def grow(self, best: Iterable[Extension], end: Sequence[int]) -> None:
        """Takes the best continuations.

        Of the `width` best those that end are finished; then others follow until enough of them continue.
        """
        parents, self.running, width = self.running, [], self.width
        is_last = len(parents[0].ids) + 1 == self.longest
        for rank, (total, row, token, logprob) in enumerate(best):
            is_enough = is_last or len(self.running) == width
            if total == -math.inf or (rank >= width and is_enough):
                break
            parent = parents[row]
            grown = Beginning([*parent.ids, token], [*parent.logprobs, logprob], total, parent.row)
            reason = self.why_done(grown, end)
            if reason is None:
                self.running.append(grown)
            elif rank < width:
                self.finish(grown, reason)

    def why_done(self, text: Beginning, end: Sequence[int]) -> Reason | None:
        """The reason to stop after the last token, or None."""
        if text.ids[-1] in end:
            return "end"
        if self.stops is not None and self.stops(text.ids):
            return "stop"
        return self.limit if len(text.ids) == self.longest else None

    def finish(self, text: Beginning, reason: Reason) -> None:
        """Adds a finished hypothesis, and forgets those beyond the width of the beam."""
        score = self.score(text.total, len(text.ids))
        self.finished.append(Hypothesis(text.ids, text.logprobs, score, reason))
        self.finished.sort(key=lambda hypothesis: -hypothesis.score)
        del self.finished[self.width :]

    def give_up(self) -> None:
        """Ends every beginning where it is: time is up."""
        for text in self.running:
            self.finish(text, "time")
        self.running = []

    def shift(self, rows: int) -> None:
        """Moves its rows, which are now behind so many others in the model's state."""
        for text in self.running:
            text.row += rows

    def score(self, total: float, length: int) -> float:
        """log P / length^penalty."""
        return total / float(length**self.settings.length_penalty)

    def is_done(self) -> bool:
        """Whether nothing that still runs can reach the hypotheses that will be returned."""
        if not self.running:
            return True
        if len(self.finished) < self.settings.n_best:
            return False
        best = self.running[0]
        length = self.longest if self.settings.length_penalty > 0 else len(best.ids)
        return self.score(best.total, length) <= self.finished[self.settings.n_best - 1].score


def finish(steps: Steps[Outcome]) -> Outcome:
    """The result of something that is done in steps."""
    while True:
        try:
            with free_cores():
                next(steps)
        except StopIteration as end:
            result: Outcome = end.value
            return result


def at_once(work: Callable[Given, Steps[Outcome]]) -> Callable[Given, Outcome]:
    """Something that is done in steps as a function that takes them all."""

    @wraps(work)
    def run(*given: Given.args, **named: Given.kwargs) -> Outcome:
        return finish(work(*given, **named))

    return run


@torch.inference_mode()
def search_in_steps(
    model: Stepper[S],
    prompts: Sequence[list[int]],
    settings: DecodingConfig,
    end: Sequence[int],
    context: int | Sequence[int | None] | None = None,
    sources: Sequence[list[int]] | None = None,
    stops: Stops | None = None,
) -> Steps[list[list[Hypothesis]]]:
    """The best hypotheses of every prompt, the best first, in steps between which others may work.

    `context` limits all of them, or each by its own.
    """
    deadline = time.monotonic() + (settings.seconds or float("inf"))
    limits = context if isinstance(context, Sequence) else [context] * len(prompts)
    beams = [
        start_beam(prompt, row, settings, limit, stops)
        for row, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
    ]
    tokens, counts = pad(prompts)
    source, source_counts = (None, None) if sources is None else pad(sources)
    capacity = max(len(beam.prompt) + beam.longest for beam in beams)
    state = model.start(len(beams), capacity, source, source_counts)
    logits = model.step(tokens, state, counts, last=True)[:, -1]  # (b, vocabulary)
    active = beams
    while active:
        grow(active, logits.float().cpu(), settings, end)
        if time.monotonic() >= deadline:
            for beam in active:
                beam.give_up()
        active = [beam for beam in active if not beam.is_done()]
        if active:
            texts = [text for beam in active for text in beam.running]
            state.select(torch.tensor([text.row for text in texts]))
            logits = model.step(torch.tensor([text.ids[-1:] for text in texts]), state, last=True)[:, -1]
            renumber(active)
        yield
    return [beam.finished[: settings.n_best] for beam in beams]


beam_search = at_once(search_in_steps)


def start_beam(
    prompt: list[int], row: int, settings: DecodingConfig, context: int | None, stops: Stops | None
) -> Beam:
    """The search of one text, before its first token."""
    check_prompt(prompt, context)
    longest = settings.max_tokens if context is None else min(settings.max_tokens, context - len(prompt))
    limit: Reason = "length" if longest == settings.max_tokens else "context"
    return Beam(prompt, longest, limit, settings, [Beginning([], [], 0.0, row)], stops)


def grow(beams: list[Beam], logits: Tensor, settings: DecodingConfig, end: Sequence[int]) -> None:
    """One more token for every beginning, by its logits (rows, vocabulary) and the rules of the settings."""
    # Enough for every beginning, even if each of those before it ends: of one row its width, and each end once.
    of_row = max(beam.width for beam in beams) + max(1, len(end))
    count = (1 + max(1, len(end))) * max(beam.width for beam in beams)
    is_free = not has_rules(settings) and all(beam.stops is None for beam in beams)
    few = best_few(logits, of_row) if is_free else None
    ways = (
        ways_by_rules(beams, logits, settings, end, count) if few is None else ways_of_few(beams, *few, count)
    )
    for beam, best in zip(beams, ways, strict=True):
        beam.grow(best, end)


def ways_of_few(
    beams: list[Beam], ids: np.ndarray, log_P: np.ndarray, count: int
) -> Iterator[Iterable[Extension]]:
    """The best continuations of every beam from the best few of each row (rows, few), sorted at once."""
    sizes = [len(beam.running) for beam in beams]
    firsts = np.cumsum([0, *sizes])
    totals = np.array([text.total for beam in beams for text in beam.running], np.float32)
    sums = log_P + totals[:, None]
    owners, rows = np.repeat(np.arange(len(beams)), sizes), np.arange(len(ids))
    places = (rows[:, None] << 32) + ids  # of equal sums the smaller row is first, then the smaller id
    own_rows, owner = (np.broadcast_to(X[:, None], ids.shape) for X in (rows - firsts[owners], owners))
    order = np.lexsort([X.ravel() for X in (places, -sums, owner)])
    best = [X.ravel()[order].tolist() for X in (sums, own_rows, ids, log_P)]
    for first, size in zip((firsts[:-1] * ids.shape[1]).tolist(), sizes, strict=True):
        last = first + min(count, size * ids.shape[1])
        yield zip(*(column[first:last] for column in best), strict=True)


def ways_by_rules(
    beams: list[Beam], logits: Tensor, settings: DecodingConfig, end: Sequence[int], count: int
) -> Iterator[Iterable[Extension]]:
    """The continuations of every beam under the rules, the best first; about `count` are likely to be asked for."""
    prompts = [beam.prompt for beam in beams for _ in beam.running]
    written = [text.ids for beam in beams for text in beam.running]
    raw = log_probabilities(logits)
    ruled = constrain(logits, settings, prompts, written, end)
    # Normalised again: if a sum of log P could grow, no beginning could ever be ruled out.
    log_P = raw if ruled is logits else torch.log_softmax(ruled, -1)
    sizes = [len(beam.running) for beam in beams]
    for beam, own, own_raw in zip(beams, log_P.split(sizes), raw.split(sizes), strict=True):
        yield continuations(beam.running, own, own_raw, count)


def continuations(
    running: Sequence[Beginning], log_P: Tensor, raw: Tensor, count: int
) -> Iterator[Extension]:
    """Every continuation by the log P of the next token (running, vocabulary), ruled and raw, the best first."""
    sums = log_P + torch.tensor([text.total for text in running])[:, None]
    for total, place in best_first(sums.flatten(), count):
        row, token = divmod(place, log_P.shape[1])
        yield total, row, token, float(raw[row, token])


def renumber(beams: list[Beam]) -> None:
    """After the state has kept the running texts, they are its rows in order."""
    rows = itertools.count()
    for beam in beams:
        for text in beam.running:
            text.row = next(rows)
