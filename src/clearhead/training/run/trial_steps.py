"""Trial steps before the real ones: a model and its data enter; seconds, tokens and bytes of a step leave.

They run on a copy of the model, so that weights and random state are untouched. The first real step is taken by
`Trainer.train`.
"""

import copy
import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median, stdev
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.data.prepare import Prepared
from clearhead.models.model import Model
from clearhead.training.distributed.collectives import local_rows
from clearhead.training.distributed.ranks import ranks
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.load import LoadMeter

TRIAL_STEPS = 3  # at least, after the first, which warms up
MOST_TRIAL_STEPS = 60
PATIENCE = 8.0  # seconds after which no further trial step is taken
LEAST_MEASURED = 0.25  # seconds that are measured at least
STEADY = 0.04  # as a share of the median: its uncertainty from which the trial steps are enough


@dataclass(frozen=True)
class TrialResult:
    """What a step takes: time, the mean number of tokens, and the peak of passing memory."""

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
        trial = Trainer(lenient, data, copy.deepcopy(model), steps=TRIAL_STEPS + 2)
        peak, meter = PeakBytes(trial.model), LoadMeter()
        seconds, tokens = [], []
        for step in range(MOST_TRIAL_STEPS + 1):
            batch = trial.batches.at(Position(0, step % trial.batches.count(0))).to(trial.device)
            if step == 0:
                with peak, peak.running_again():
                    trial.update(batch.share(0, batch.rows))
                shares = min(ranks() * run.training.accumulate, batch.rows)
                rows = -(-batch.rows // shares)
                peak.again *= rows
                check(peak.most * rows)
            started = time.perf_counter()
            with peak if step <= TRIAL_STEPS else nullcontext():  # the same estimate on any machine
                trial.update(batch)
            seconds.append(time.perf_counter() - started)
            tokens += [batch.tokens] * (step <= TRIAL_STEPS)
            if is_enough(seconds):
                break
    return TrialResult(seconds[1:] or seconds, sum(tokens) // len(tokens), peak.most, meter.others())


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


class PeakBytes:
    """Counts the most bytes that a pass takes besides the weights, inside a `with`; `again` are those of a block.

    Autograd saves tensors for the backward pass. With recomputation it saves only the input of each block; the
    backward pass then runs the blocks again one by one, and takes what one of them saves.
    """

    def __init__(self, model: Model) -> None:
        self.weights = {local_rows(weight).untyped_storage().data_ptr() for weight in model.parameters()}
        self.recomputed = [part for part in model.modules() if isinstance(part.forward, partial)]
        self.saved = SavedBytes(self.weights)
        self.most = self.again = 0
        self.hooks = saved_tensors_hooks(self.save, lambda X: X)
        model.register_forward_pre_hook(lambda module, given: self.clear())

    def save(self, X: torch.Tensor) -> torch.Tensor:
        """Counts a saved tensor, and what else is allocated at the peak."""
        self.saved.add(X)
        self.most = max(self.most, self.saved.count + max(self.saved.in_use, self.again))
        return X

    def clear(self) -> None:
        """Starts a forward pass: what the previous one saved is discarded."""
        self.saved = SavedBytes(self.weights)

    @contextmanager
    def running_again(self) -> Iterator[None]:
        """Runs every recomputed block once more as it is reached, to see what it saves."""
        hooks = [part.register_forward_pre_hook(self.run, with_kwargs=True) for part in self.recomputed]
        yield
        for hook in hooks:
            hook.remove()

    def run(self, block: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Runs a block as the backward pass will."""
        inside, forward = SavedBytes(self.weights), block.forward
        assert isinstance(forward, partial)  # the first argument of `checkpoint` is what it runs again
        with saved_tensors_hooks(inside.add, lambda X: X):
            forward.args[0](*given, **named)
        self.again = max(self.again, inside.count + inside.in_use)

    def __enter__(self) -> None:
        self.hooks.__enter__()

    def __exit__(self, *error: object) -> None:
        self.hooks.__exit__(*error)


class SavedBytes:
    """Counts the bytes of tensors, each storage once, without those at the given addresses."""

    def __init__(self, addresses: Collection[int]) -> None:
        self.addresses = set(addresses)
        self.count = self.largest = 0

    @property
    def in_use(self) -> int:
        """Allocated besides: the largest tensor, usually the logits, once more as such and once as a gradient."""
        return 2 * self.largest

    def add(self, X: torch.Tensor) -> torch.Tensor:
        """Counts a tensor."""
        storage = X.untyped_storage()
        if storage.data_ptr() not in self.addresses:
            self.addresses.add(storage.data_ptr())
            self.count, self.largest = self.count + storage.nbytes(), max(self.largest, storage.nbytes())
        return X
