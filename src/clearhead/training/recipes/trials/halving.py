"""Successive halving: candidates and folds enter; each fold is tried by fewer of them, until one is left.

The better half goes on to the next fold, and of that nobody who is clearly behind on the same examples. What was
judged on several folds counts together. Trials end when the leader is clearly ahead, or the time or the folds are over.
If the minutes then have room for a longer run, the best are tried with twice the epochs: what learns late, such as a
transformer, overtakes what learns soon.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.config.run import RunConfig
from clearhead.training.recipes.trials.candidates import Candidate, at_the_end
from clearhead.training.recipes.trials.folds import Fold
from clearhead.training.recipes.trials.trial import Judgement
from clearhead.training.run.plan import DEFAULT_EPOCHS

CLEAR = 2.0  # standard errors of the difference by which a leader is clearly ahead
SLACK = 1.3  # times the seconds of the fold before that a fold may take
LONGER = 1.5  # times a complete trial that the run takes, which learns from more texts
LENGTHENED, LONGEST = 2, 8  # of the best, how many; times the epochs of a recipe, at most

Try = Callable[
    [Candidate, Fold, float], Judgement | None
]  # for at most so many seconds; None: there was no time


@dataclass
class Entry:
    """A candidate, and how it was judged fold by fold."""

    candidate: Candidate
    judgements: list[Judgement] = field(default_factory=list)

    @property
    def scores(self) -> NDArray[Any]:
        """How good it was on each example, over all its folds."""
        return np.concatenate([judgement.scores for judgement in self.judgements])

    @property
    def score(self) -> float:
        """Their mean: the share of texts that it labelled rightly, or −bits per byte."""
        return float(self.scores.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return float(self.scores.std() / math.sqrt(len(self.scores)))

    @property
    def loss(self) -> float:
        """The mean −log P over its folds."""
        return sum(judgement.loss for judgement in self.judgements) / len(self.judgements)

    @property
    def is_complete(self) -> bool:
        """Whether it read the data as often as its recipe says; what was cut short says little."""
        return all(judgement.is_complete for judgement in self.judgements)

    def lead_over(self, other: "Entry") -> tuple[float, float]:
        """By how much it is better on the folds that both have tried, and the standard error of that."""
        count = min(len(self.judgements), len(other.judgements))
        mine, theirs = (
            np.concatenate([judgement.scores for judgement in entry.judgements[:count]]).astype(float)
            for entry in (self, other)
        )
        difference = mine - theirs
        return float(difference.mean()), float(difference.std() / math.sqrt(len(difference)))


def halve(
    candidates: Sequence[Candidate],
    folds: Sequence[Fold],
    deadline: float,
    expected: Sequence[float],
    try_one: Try,
) -> list[Entry]:
    """All candidates that were judged, the best first; `deadline` is that of `time.perf_counter`.

    On the first fold everyone has what the others are not expected to need: if steps take longer than expected, the
    last are cut short, and not all. A later fold is tried only if there is time for all who are left, and what is cut
    short there does not count.
    """
    entries = [Entry(candidate) for candidate in candidates]
    ahead = sum(expected)
    for entry, seconds in zip(entries, expected, strict=True):
        ahead -= seconds
        left = deadline - time.perf_counter() - max(0.0, ahead)
        judgement = try_one(entry.candidate, folds[0], max(seconds, left))
        entry.judgements += [judgement] if judgement else []
    alive = survivors(entries)
    for fold in folds[1:]:
        seconds = sum(entry.judgements[-1].seconds for entry in alive)
        if len(alive) < 2 or time.perf_counter() + SLACK * seconds > deadline:
            break
        for entry in alive:
            judgement = try_one(entry.candidate, fold, deadline - time.perf_counter())
            if judgement is None or not judgement.is_complete:
                return ranked(entries)
            entry.judgements.append(judgement)
        alive = survivors(alive)
    return ranked(entries)


def lengthen(entries: Sequence[Entry], folds: Sequence[Fold], end: float, try_one: Try) -> list[Entry]:
    """The entries, the best first, with those of the best recipes at twice the epochs, and again where that helped.

    A longer one must be ahead by a standard error, and leave the time of its run until the `end` of all minutes.
    """
    first, found = entries[0], list(entries)
    for entry in entries[:LENGTHENED]:
        name, run, times = entry.candidate.name, entry.candidate.run, 2
        while entry.is_complete and times <= LONGEST:
            seconds = [2 * judgement.seconds for judgement in entry.judgements]
            last = end - LONGER * max(seconds)
            if time.perf_counter() + SLACK * sum(seconds) > last:
                break
            longer = Entry(with_epochs(name, run, times))
            for fold in folds[: len(entry.judgements)]:
                judgement = try_one(longer.candidate, fold, last - time.perf_counter())
                if judgement is None or not judgement.is_complete:
                    break
                longer.judgements.append(judgement)
            if len(longer.judgements) < len(entry.judgements):
                break
            found.append(longer)
            lead, error = longer.lead_over(entry)
            if lead <= error:
                break
            first = longer if longer.lead_over(first)[0] > 0 else first
            entry, times = longer, 2 * times
    return [first, *(entry for entry in ranked(found) if entry is not first)]


def with_epochs(name: str, run: RunConfig, times: int) -> Candidate:
    """A candidate that reads the data so many times as often, and is evaluated at the end only."""
    epochs = times * (run.training.epochs or DEFAULT_EPOCHS)
    longer = run.replace(training=run.training.replace(epochs=epochs, **at_the_end(run.training.average)))
    return Candidate(f"{name}, {times} × as long", longer)


def survivors(entries: Sequence[Entry]) -> list[Entry]:
    """The better half of those that were complete, without those that are clearly behind the first."""
    complete = [entry for entry in ranked(entries) if entry.is_complete]
    kept = complete[: max(2, math.ceil(len(entries) / 2))]
    return [entry for entry in kept if entry is kept[0] or not is_clear(kept[0], entry)]


def is_clear(first: Entry, other: Entry) -> bool:
    """Whether one is better than another by more than chance explains."""
    lead, error = first.lead_over(other)
    return lead > CLEAR * error


def ranked(entries: Sequence[Entry]) -> list[Entry]:
    """The best first: who was not cut short, was tried on more folds, has the higher score, has the smaller loss."""
    tried = [entry for entry in entries if entry.judgements]
    return sorted(
        tried,
        key=lambda entry: (
            not entry.is_complete, -len(entry.judgements), -round(entry.score, 4), entry.loss
        ),
    )  # fmt: skip
