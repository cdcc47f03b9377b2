"""Trial steps before the real ones: a model and its data enter; seconds, tokens and bytes of a step leave.

They run on a copy of the model, which shares its frozen weights, so that weights and random state are untouched. The
first real step is taken by `Trainer.train`. If the recipe leaves the number format to us, both are tried on some rows
first.
"""

import copy
import logging
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median, stdev

import torch

from clearhead.config.run import RunConfig
from clearhead.config.training import Precision
from clearhead.data.batching.batches import Batch, Position
from clearhead.data.prepare import Prepared
from clearhead.machine.load import LoadMeter
from clearhead.models.model import Model
from clearhead.training.distributed.collectives import local_rows
from clearhead.training.distributed.ranks import ranks
from clearhead.training.loop.device import pick_precision
from clearhead.training.loop.optimizers import set_precision
from clearhead.training.loop.threads import one_core_each
from clearhead.training.loop.trainer import Trainer
from clearhead.training.run.allocations import AllocationMeter, release_memory
from clearhead.training.run.requirements import weight_bytes

log = logging.getLogger(__name__)

TRIAL_STEPS = 3  # at least, after the first, which warms up
MOST_TRIAL_STEPS = 60
PATIENCE = 8.0  # seconds after which no further trial step is taken
LEAST_MEASURED = 0.25  # seconds that are measured at least
STEADY = 0.04  # as a share of the median: its uncertainty from which the trial steps are enough
FASTER = 1.25  # times the speed of float32 from which bfloat16 is worth its rounding
TRIED_ROWS = (
    64  # of a product that tells whether bfloat16 is computed or emulated, which takes 60 times as long
)
TRIED_TOKENS = 512  # per thread, at most, with which the two formats are compared
ROUNDS = 3  # of each; the fastest counts


@dataclass(frozen=True)
class TrialResult:
    """What a step takes: time, the mean number of tokens, and the peak of what it allocates, gradients included."""

    times: list[float]  # of each step, without the first
    tokens: int
    bytes: int
    others: float | None = None  # cores that other programs used meanwhile
    precision: Precision = "float32"  # that was chosen
    gain: float | None = None  # times the speed of float32 that bfloat16 has, if both were measured

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
        splits = trial.splits_batches
        for step in range(MOST_TRIAL_STEPS + 1):
            batch = trial.batches.at(Position(0, step % trial.batches.count(0))).to(trial.device)
            if step == 0:
                of_a_row = bytes_of_a_row(trial, batch.share(0, batch.rows))
                shares = min(ranks() * run.training.accumulate, batch.rows)
                check(of_a_row * -(-batch.rows // shares) + weight_bytes(trial.model, True))
                precision, gain = choose_precision(trial, batch)
                trial.training = trial.training.replace(precision=precision)
                set_precision(trial.optimizers, precision)
            if step in (0, TRIAL_STEPS + 1):  # what the other format, or one thread, has left
                release_memory()
            trial.splits_batches = splits and step > TRIAL_STEPS  # the meter sees one thread only
            started = time.perf_counter()
            with meter if step <= TRIAL_STEPS else nullcontext():  # the same estimate on any machine
                trial.update(batch)
            seconds.append(time.perf_counter() - started)
            tokens += [batch.tokens] * (step <= TRIAL_STEPS)
            first = 1 + TRIAL_STEPS * splits
            if is_enough(seconds, first):
                break
    # Every thread makes gradients of all weights.
    more = weight_bytes(trial.model, True) * (torch.get_num_threads() - 1) if splits else 0
    times = seconds[first:] or seconds[1:] or seconds
    return TrialResult(times, sum(tokens) // len(tokens), meter.most + more, load.others(), precision, gain)


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


def choose_precision(trial: Trainer, batch: Batch) -> tuple[Precision, float | None]:
    """The number format of the forward pass, and how many times as fast bfloat16 is, if that was measured.

    Ranks must agree without asking one another, so they do not measure.
    """
    training, width = trial.training, trial.run.model.d
    if trial.device.type != "cpu" or ranks() > 1:
        return pick_precision(training, trial.device), None
    if training.precision == "bfloat16" and (gain := product_gain(width)) < 1 / FASTER:
        log.warning(
            "training.precision = 'bfloat16' is slow on this processor: a product takes %.1f times as long as with "
            "'float32'. With --training.precision float32 the run is faster, and its last bits differ.",
            1 / gain,
        )
    if training.precision != "auto":
        return training.precision, None
    if product_gain(width) < FASTER:
        return "float32", None
    parts = -(-batch.rows * batch.inputs.shape[1] // (TRIED_TOKENS * torch.get_num_threads()))
    gain = gradient_gain(trial, batch.share(0, min(parts, batch.rows)))
    return ("bfloat16" if gain >= FASTER else "float32"), gain


def product_gain(width: int) -> float:
    """How many times as fast a product of matrices of this width is in bfloat16."""
    X, W = torch.ones(TRIED_ROWS, width), torch.ones(width, width)

    def multiply(dtype: torch.dtype) -> Callable[[], object]:
        Y, V = X.to(dtype), W.to(dtype)
        return lambda: Y @ V

    return fastest(multiply(torch.float32)) / fastest(multiply(torch.bfloat16))


def gradient_gain(trial: Trainer, batch: Batch) -> float:
    """How many times as fast the gradient of some rows is in bfloat16."""
    seconds: dict[Precision, float] = {}
    formats: tuple[Precision, ...] = ("float32", "bfloat16")

    def compute() -> None:
        trial.add_gradient(batch, 1.0)
        for weight in trial.model.parameters():
            weight.grad = None

    with one_core_each(trial.splits_batches):
        for _ in range(ROUNDS):
            for precision in formats:
                trial.training = trial.training.replace(precision=precision)
                release_memory()  # what the other format has left, or the comparison takes more than the run
                seconds[precision] = min(fastest(compute, 1), seconds.get(precision, math.inf))
    return seconds["float32"] / seconds["bfloat16"]


def fastest(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds of the fastest of some rounds, after one to warm up."""
    run()
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def is_enough(seconds: list[float], first: int = 1) -> bool:
    """Whether the trial steps from the given one on are enough: their median is certain, or the time is over."""
    if ranks() > 1:  # which must take the same steps
        return len(seconds) > TRIAL_STEPS
    times, total = seconds[first:], sum(seconds)
    if total > PATIENCE or len(times) < TRIAL_STEPS:
        return total > PATIENCE
    # Of n times that scatter by s, the median is uncertain by 1.25 s / √n.
    uncertainty = 1.25 * stdev(times) / math.sqrt(len(times))
    return sum(times) >= LEAST_MEASURED and uncertainty <= STEADY * median(times)
