"""One trial: a recipe and a fold enter; which judged texts it labels rightly leaves, after a short training."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import Position
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.training.loop.losses import inputs_of, side_by_side
from clearhead.training.loop.trainer import Trainer
from clearhead.training.recipes.trials.folds import FoldData
from clearhead.training.run.plan import DEFAULT_EPOCHS, model_config

TIMED_STEPS = 3  # after one to warm up, from which the time of a trial is computed
JUDGING = 0.5  # the time of a step that judging a batch takes


@dataclass(frozen=True)
class Judgement:
    """What a trial, or the floor, made of the judged part of a fold."""

    right: NDArray[np.bool_]  # by example
    loss: float  # mean −log P of the true label
    steps: int
    seconds: float
    is_complete: bool  # whether it read the data as often as the recipe says

    @property
    def accuracy(self) -> float:
        """The share of texts that were labelled rightly."""
        return float(self.right.mean())


def try_recipe(
    run: RunConfig, data: FoldData, deadline: float, progress: Callable[[float], None] = lambda share: None
) -> Judgement | None:
    """Trains a recipe on a fold, at most until the deadline of `time.perf_counter`, and judges it; None: no time."""
    started = time.perf_counter()
    if started >= deadline:
        return None
    run = for_a_trial(run)
    steps = steps_of(run, data)
    with torch.random.fork_rng():
        trainer = Trainer(run, data, build(model_config(run, data), run.training.seed), steps)
        for record in trainer.train():
            progress(record.step / steps)
            trainer.is_stopping = time.perf_counter() >= deadline
        with trainer.average.applied():
            right, loss = judge(trainer.model, data, run.training.batch_tokens)
    return Judgement(right, loss, trainer.step, time.perf_counter() - started, trainer.step >= steps)


def for_a_trial(run: RunConfig) -> RunConfig:
    """The recipe without what only a whole run needs; a record of every step, after which the clock is read."""
    return run.replace(
        training=run.training.replace(
            precision="float32", patience=None, steps=None, minutes=None, log_every=1
        )
    )


def steps_of(run: RunConfig, data: FoldData) -> int:
    """The steps of a complete trial."""
    batches = data.batches("train", run.training.batch_tokens, run.training.seed).count(0)
    return max(1, round((run.training.epochs or DEFAULT_EPOCHS) * batches))


def expected_seconds(run: RunConfig, data: FoldData, deadline: float) -> float:
    """How long a complete trial would take, from the median of a few steps, or fewer if the deadline passes."""
    run = for_a_trial(run)
    with torch.random.fork_rng():
        trainer = Trainer(run, data, build(model_config(run, data), run.training.seed), steps=TIMED_STEPS + 1)
        times: list[float] = []
        for step in range(TIMED_STEPS + 1):
            batch = trainer.batches.at(Position(0, step % trainer.batches.count(0)))
            started = time.perf_counter()
            trainer.update(batch.to(trainer.device))
            times.append(time.perf_counter() - started)
            if time.perf_counter() >= deadline:
                break
    timed = times[1:] or times
    judged = data.batches("validation", run.training.batch_tokens, shuffle=False).count()
    return sorted(timed)[len(timed) // 2] * (steps_of(run, data) + JUDGING * judged)


@torch.no_grad()
def judge(model: Model, data: FoldData, batch_tokens: int) -> tuple[NDArray[np.bool_], float]:
    """Which judged texts are labelled rightly, and the mean −log P of their labels."""
    model.eval()
    batches = data.batches("validation", batch_tokens, shuffle=False)
    count = data.parts["validation"][0].examples
    right, nats = np.zeros(count, np.bool_), 0.0
    device = next(model.parameters()).device
    for step in range(batches.count()):
        batch = batches.at(Position(0, step)).to(device)
        Z, wanted = side_by_side(model(inputs_of(batch)), batch)
        right[batches.plan.examples(0, step)] = (Z.argmax(-1) == wanted).cpu().numpy()
        nats += float(torch.nn.functional.cross_entropy(Z, wanted, reduction="sum"))
    return right, nats / count
