"""The time of trials: candidates and a fold enter; who is tried, and on what share of the texts, leaves.

A trial that is cut short says little, so with little time trials are smaller. Of labelled texts all candidates learn
from the same part, read as often as their recipes say. For other tasks, whose runs end with the time and not with the
data, all have the same time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from clearhead.config.run import RunConfig
from clearhead.training.recipes.trials.candidates import Candidate
from clearhead.training.recipes.trials.folds import Fold, FoldData, prepare_fold
from clearhead.training.recipes.trials.halving import LONGER
from clearhead.training.recipes.trials.trial import expected_seconds, steps_of

MEASURING = 0.4  # of the time, at most, that preparing and timing the candidates takes
FIRST_FOLD = 0.7  # of the time that is left then, for the first fold: the machine may become busier
FEW_TEXTS = 0.3  # the share of the texts below which fewer candidates are tried instead
FEWEST_TEXTS = 0.05  # the share below which trials say nothing
FEWEST_SECONDS = 3.0  # of a trial that ends with the time


@dataclass
class Budget:
    """The candidates that are tried, what each is expected to take, and the share of the texts it learns from."""

    deadline: float  # of `time.perf_counter`
    candidates: list[Candidate] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    share: float = 1.0
    steps: dict[str, int] = field(default_factory=dict)  # of the trials that end with the time
    preparing: float = 0.0  # seconds of the slowest preparation of a fold
    prepared: dict[tuple[int, str, int | None, bool], FoldData] = field(default_factory=dict)

    @classmethod
    def of(cls, candidates: Sequence[Candidate], fold: Fold, deadline: float, end: float = 0.0) -> "Budget":
        """Times a few steps of each candidate, in their order, as long as there is time for that.

        If the longest run would leave time until the `end` of all minutes, trials have that too.
        """
        self = cls(deadline)
        started = time.perf_counter()
        last = started + MEASURING * (deadline - started)
        for candidate in candidates:
            if time.perf_counter() >= last:
                break
            self.seconds.append(expected_seconds(candidate.run, self.data(candidate.run, fold), last))
            self.candidates.append(candidate)
        if self.seconds:
            self.deadline = max(deadline, end - LONGER * max(self.seconds))
        first_fold = FIRST_FOLD * (self.deadline - time.perf_counter())
        if fold.labels:
            self.take_smaller_part(first_fold)
        else:
            self.take_equal_time(first_fold, fold)
        return self

    def take_smaller_part(self, seconds: float) -> None:
        """The share of the texts, and the candidates, for which there is time."""
        kept, self.share = fit_into(self.seconds, seconds)
        self.candidates = [self.candidates[k] for k in kept]
        self.seconds = [self.share * self.seconds[k] for k in kept]

    def take_equal_time(self, seconds: float, fold: Fold) -> None:
        """As many steps for each candidate as fit into the same time."""
        each = max(0.0, seconds) / max(1, len(self.candidates))
        for k, candidate in enumerate(self.candidates):
            whole = steps_of(candidate.run, self.data(candidate.run, fold))
            self.steps[candidate.name] = max(1, round(whole * min(1.0, each / max(1e-9, self.seconds[k]))))
            self.seconds[k] = min(each, self.seconds[k])

    @property
    def is_enough(self) -> bool:
        """Whether at least one is tried beside the rule, on texts, or for a time, that say something."""
        longest = max(self.seconds, default=0.0)
        is_long = not self.steps or longest >= FEWEST_SECONDS
        return len(self.candidates) > 1 and self.share >= FEWEST_TEXTS and is_long

    def data(self, run: RunConfig, fold: Fold) -> FoldData:
        """The fold in the tokens of a recipe, and its share; what others have prepared is used again."""
        key = fold.number, run.tokenizer.model_dump_json(), run.model.context, run.data.unlabelled is not None
        if key not in self.prepared:
            self.prepared = {old: data for old, data in self.prepared.items() if old[0] == fold.number}
            started = time.perf_counter()
            self.prepared[key] = prepare_fold(run, fold)
            self.preparing = max(self.preparing, time.perf_counter() - started)
        return self.prepared[key].share(self.share)


def fit_into(costs: Sequence[float], seconds: float) -> tuple[list[int], float]:
    """Who is tried in so many seconds, and on what share of the texts; the last are left out."""
    kept = list(range(len(costs)))
    while True:
        share = min(1.0, max(0.0, seconds) / max(1e-9, sum(costs[k] for k in kept)))
        if share >= FEW_TEXTS or len(kept) <= 2:
            return kept, share
        kept.pop()
