"""Trial steps before the real ones: a model and its data enter; seconds, tokens and bytes of a step leave.

They run on a copy of the model, which shares its frozen weights, so that weights and random state are untouched. The
first real step is taken by `Trainer.train`.
"""

import copy
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median, stdev

import torch

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Batch, Position
from clearhead.data.prepare import Prepared
from clearhead.models.model import Model
from clearhead.training.distributed.collectives import local_rows
from clearhead.training.distributed.ranks import ranks
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.allocations import AllocationMeter
from clearhead.training.run.load import LoadMeter
from clearhead.training.run.requirements import weight_bytes

TRIAL_STEPS = 3  # at least, after the first, which warms up
MOST_TRIAL_STEPS = 60
PATIENCE = 8.0  # seconds after which no further trial step is taken
LEAST_MEASURED = 0.25  # seconds that are measured at least
STEADY = 0.04  # as a share of the median: its uncertainty from which the trial steps are enough


@dataclass(frozen=True)
class TrialResult:
    """What a step takes: time, the mean number of tokens, and the peak of what it allocates, gradients included."""

    times: list[float]  # of each step, without the first
    tokens: int
    bytes: int
    others: float | None = None  # cores that other programs used meanwhile

    @property
    def seconds(self) -> float:
        """The median time."""
        return self.quantile(0.5)

    def quantile(self, share: float) -> float:
        """The time that this share of the steps does not exceed."""
        return sorted(self.times)[min(len(self.times) - 1, int(share * len(self.times)))]


def take_trial_steps(
    run: RunConfig, data: Prepared, model: Model, check: Callable[[int], None]
) -> TrialResult:
    """Takes a few steps on real batches with a copy of the model, and measures them.

    `check` is given the bytes that a batch will need, judged by one row, before the first whole one is tried.
    """
    # A trial never ends a run for its loss; the run itself may.
    lenient = run.replace(training=run.training.replace(most_skipped=MOST_TRIAL_STEPS + 3))
    with torch.random.fork_rng():
        trial = Trainer(lenient, data, trial_copy(model), steps=TRIAL_STEPS + 2)
        meter, load, seconds, tokens = AllocationMeter(), LoadMeter(), [], []
        for step in range(MOST_TRIAL_STEPS + 1):
            batch = trial.batches.at(Position(0, step % trial.batches.count(0))).to(trial.device)
            if step == 0:
                of_a_row = bytes_of_a_row(trial, batch.share(0, batch.rows))
                shares = min(ranks() * run.training.accumulate, batch.rows)
                check(of_a_row * -(-batch.rows // shares) + weight_bytes(trial.model, True))
            started = time.perf_counter()
            with meter if step <= TRIAL_STEPS else nullcontext():  # the same estimate on any machine
                trial.update(batch)
            seconds.append(time.perf_counter() - started)
            tokens += [batch.tokens] * (step <= TRIAL_STEPS)
            if is_enough(seconds):
                break
    return TrialResult(seconds[1:] or seconds, sum(tokens) // len(tokens), meter.most, load.others())


def bytes_of_a_row(trial: Trainer, row: Batch) -> int:
    """What a step allocates for one row, without gradients: what the forward pass leaves, and logits twice more."""
    meter, found = AllocationMeter(), [0]
    hook = trial.model.register_forward_hook(
        lambda module, given, Z: found.append(meter.now + 2 * local_rows(Z).nbytes)
    )
    with meter:
        trial.update(row)
    hook.remove()
    return max(found)


def trial_copy(model: Model) -> Model:
    """A copy of a model to try steps on; on one rank it shares the frozen weights, which no step changes."""
    frozen = {id(weight): weight for weight in model.parameters() if not weight.requires_grad}
    return copy.deepcopy(model, frozen if ranks() == 1 else {})


def is_enough(seconds: list[float]) -> bool:
    """Whether the trial steps so far are enough: their median is certain, or the time is over."""
    if ranks() > 1:  # which must take the same steps
        return len(seconds) > TRIAL_STEPS
    times, total = seconds[1:], sum(seconds)
    if total > PATIENCE or len(times) < TRIAL_STEPS:
        return total > PATIENCE
    # Of n times that scatter by s, the median is uncertain by 1.25 s / √n.
    uncertainty = 1.25 * stdev(times) / math.sqrt(len(times))
    return sum(times) >= LEAST_MEASURED and uncertainty <= STEADY * median(times)
