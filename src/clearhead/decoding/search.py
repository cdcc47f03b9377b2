"""Beam search: the likeliest texts among those that a few best beginnings can become.

A hypothesis scores log P(text) / length^penalty, with the end token counted. The search of a text stops only
when no running hypothesis could still beat the ones to be returned: log P can only fall, so that
s / longest^penalty bounds what a beginning with sum s may reach.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from clearhead.config.decoding import DecodingConfig
from clearhead.decoding.engine import Stepper, pad
from clearhead.decoding.sampling import apply_rules
from clearhead.decoding.stopping import Reason
from clearhead.errors import InputError


@dataclass(frozen=True)
class Hypothesis:
    """A text that the search has found."""

    ids: list[int]
    logprob: float  # of the whole text
    score: float  # what the search compares
    reason: Reason


@dataclass(frozen=True)
class Beginning:
    """A text that is still being written, and the row of the model's state that holds it."""

    ids: list[int]
    logprob: float
    row: int


@dataclass
class Beam:
    """The hypotheses of one text."""

    prompt: list[int]
    longest: int  # tokens at which every hypothesis ends
    limit: Reason  # why it ends there
    settings: DecodingConfig
    running: list[Beginning]  # the best first
    finished: list[Hypothesis] = field(default_factory=list)  # the best first

    def grow(self, log_P: Tensor, end: Sequence[int]) -> None:
        """Takes the best continuations, by the log-probabilities (running, vocabulary) of the next token.

        Of the `width` best those that end are finished; the others are there to have enough to go on with.
        """
        width = self.settings.beam or 1
        sums = log_P + torch.tensor([beginning.logprob for beginning in self.running])[:, None]
        best = sums.flatten().topk(min((1 + max(1, len(end))) * width, sums.numel()))
        running: list[Beginning] = []
        for rank, (logprob, place) in enumerate(
            zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ):
            parent, token = self.running[place // log_P.shape[1]], place % log_P.shape[1]
            grown = Beginning([*parent.ids, token], logprob, parent.row)
            is_last = token in end or len(grown.ids) == self.longest
            if not is_last and len(running) < width:
                running.append(grown)
            elif is_last and rank < width and logprob > -torch.inf:
                self.finish(grown, "end" if token in end else self.limit)
        self.running = running

    def finish(self, text: Beginning, reason: Reason) -> None:
        """Adds a finished hypothesis, and forgets those beyond the width of the beam."""
        score = self.score(text.logprob, len(text.ids))
        self.finished.append(Hypothesis(text.ids, text.logprob, score, reason))
        self.finished.sort(key=lambda hypothesis: -hypothesis.score)
        del self.finished[self.settings.beam or 1 :]

    def score(self, logprob: float, length: int) -> float:
        """log P / length^penalty."""
        return logprob / float(length**self.settings.length_penalty)

    def is_done(self) -> bool:
        """Whether nothing that still runs can reach the hypotheses that will be returned."""
        if not self.running:
            return True
        if len(self.finished) < self.settings.n_best:
            return False
        best = self.running[0]
        length = self.longest if self.settings.length_penalty > 0 else len(best.ids)
        return self.score(best.logprob, length) <= self.finished[self.settings.n_best - 1].score


@torch.inference_mode()
def beam_search(
    model: Stepper,
    prompts: Sequence[list[int]],
    settings: DecodingConfig,
    end: Sequence[int],
    context: int | None = None,
    sources: Sequence[list[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of every prompt, the best first."""
    beams = [start_beam(prompt, row, settings, context) for row, prompt in enumerate(prompts)]
    tokens, counts = pad(prompts)
    source, source_counts = (None, None) if sources is None else pad(sources)
    capacity = max(len(beam.prompt) + beam.longest for beam in beams)
    state = model.start(len(beams), capacity, source, source_counts)
    logits = model.step(tokens, state, counts, last=True)[:, -1]  # (b, vocabulary)
    active = beams
    while active:
        log_P = ruled(torch.log_softmax(logits.float().cpu(), -1), active, settings, end)
        for beam, own in zip(active, log_P.split([len(beam.running) for beam in active]), strict=True):
            beam.grow(own, end)
        active = [beam for beam in active if not beam.is_done()]
        if active:
            texts = [text for beam in active for text in beam.running]
            state.select(torch.tensor([text.row for text in texts]))
            logits = model.step(torch.tensor([text.ids[-1:] for text in texts]), state, last=True)[:, -1]
            renumber(active)
    return [beam.finished[: settings.n_best] for beam in beams]


def start_beam(prompt: list[int], row: int, settings: DecodingConfig, context: int | None) -> Beam:
    """The search of one text, before its first token."""
    room = settings.max_tokens if context is None else context - len(prompt)
    longest = min(settings.max_tokens, room)
    if longest < 1:
        raise InputError(
            f"The prompt has {len(prompt)} tokens and the model's context is {context}: nothing can follow.\n"
            "Shorten it; nothing is cut off silently."
        )
    limit: Reason = "length" if longest == settings.max_tokens else "context"
    return Beam(prompt, longest, limit, settings, [Beginning([], 0.0, row)])


def ruled(log_P: Tensor, beams: list[Beam], settings: DecodingConfig, end: Sequence[int]) -> Tensor:
    """The log-probabilities after the rules that the settings ask for: bias, bans, penalties."""
    prompts = [beam.prompt for beam in beams for _ in beam.running]
    written = [text.ids for beam in beams for text in beam.running]
    return apply_rules(log_P, settings, prompts, written, end)


def renumber(beams: list[Beam]) -> None:
    """After the state has kept the running texts, they are its rows in order."""
    rows = itertools.count()
    for beam in beams:
        beam.running = [replace(text, row=next(rows)) for text in beam.running]
