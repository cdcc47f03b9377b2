"""One trial: a recipe and a fold enter; a score for each judged example leaves, after a short training.

The score of a labelled text is 1 if its label is right. That of a text or a translation is −bits, in units of a mean
example's bytes, so that the mean of all scores is −bits per byte, whatever the tokens are.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from clearhead import vector_folder
from clearhead.config.data import MOST
from clearhead.config.run import RunConfig
from clearhead.data.batching.batches import IGNORE, Position
from clearhead.data.batching.collate import Windows
from clearhead.models.build import build
from clearhead.models.model import Model
from clearhead.training.loop.losses import inputs_of, side_by_side
from clearhead.training.loop.trainer import Trainer
from clearhead.training.recipes.trials.folds import FoldData
from clearhead.training.run.plan import DEFAULT_EPOCHS, model_config
from clearhead.training.run.word_embeddings import set_embeddings

TIMED_STEPS = 3  # after one to warm up, from which the time of a trial is computed
WORST = 100.0  # nats of a prediction that is not finite
JUDGING = 0.5  # the time of a step that judging a batch takes


@dataclass(frozen=True)
class Judgement:
    """What a trial, or the floor, made of the judged part of a fold."""

    scores: NDArray[Any]  # by example; a higher one is better
    loss: float  # mean −log P of the true label; of a text, bits per byte
    steps: int
    seconds: float
    is_complete: bool  # whether it read the data as often as the recipe says

    @property
    def score(self) -> float:
        """The share of texts that were labelled rightly, or −bits per byte."""
        return float(self.scores.mean())


def try_recipe(
    run: RunConfig,
    data: FoldData,
    deadline: float,
    progress: Callable[[float], None] = lambda share: None,
    steps: int | None = None,
) -> Judgement | None:
    """Trains a recipe on a fold, at most until the deadline of `time.perf_counter`, and judges it; None: no time.

    If `steps` is omitted, they are as many as the epochs of the recipe take.
    """
    started = time.perf_counter()
    if started >= deadline:
        return None
    run = for_a_trial(run)
    steps = steps or steps_of(run, data)
    with torch.random.fork_rng():
        trainer = Trainer(run, data, new_model(run, data), steps)
        for record in trainer.train():
            progress(record.step / steps)
            trainer.is_stopping = time.perf_counter() >= deadline
        with trainer.average.applied():
            scores, loss = judge(trainer.model, data, run.training.batch_tokens)
    return Judgement(scores, loss, trainer.step, time.perf_counter() - started, trainer.step >= steps)


def new_model(run: RunConfig, data: FoldData) -> Model:
    """The model of a recipe, with the first weights that it names."""
    model = build(model_config(run, data), run.training.seed)
    if run.training.embeddings_from is not None:
        folder = run.training.embeddings_from
        set_embeddings(model, data.tokenizers, vector_folder.load(Path(folder)), folder)
    return model


def for_a_trial(run: RunConfig) -> RunConfig:
    """The recipe without what only a whole run needs; a record of every step, after which the clock is read.

    A trial whose loss is not finite does not end the command: it is judged as it is.
    """
    return run.replace(
        training=run.training.replace(
            precision="float32", patience=None, steps=None, minutes=None, log_every=1, most_skipped=MOST
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
        trainer = Trainer(run, data, new_model(run, data), steps=TIMED_STEPS + 1)
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
def judge(model: Model, data: FoldData, batch_tokens: int) -> tuple[NDArray[Any], float]:
    """The score of each judged example, and the mean −log P of the labels, or the bits per byte."""
    model.eval()
    batches = data.batches("validation", batch_tokens, shuffle=False)
    device = next(model.parameters()).device
    is_labelled = data.run.kind == "labelled"
    part = data.parts["validation"]
    stream = batches.collate.stream if isinstance(batches.collate, Windows) else None
    scores = np.zeros(part.examples if stream is None else stream.tokens)
    window = batches.collate.n if isinstance(batches.collate, Windows) else 0
    nats = 0.0
    for step in range(batches.count()):
        batch, numbers = batches.at(Position(0, step)).to(device), batches.plan.examples(0, step)
        Z, wanted = side_by_side(model(inputs_of(batch)), batch)
        each = F.cross_entropy(Z, wanted, ignore_index=IGNORE, reduction="none").view(batch.rows, -1)
        each = each.nan_to_num(nan=WORST, posinf=WORST)
        nats += float(each.sum())
        if is_labelled:
            scores[numbers] = (Z.argmax(-1) == wanted).cpu().numpy()
        elif stream is None:
            scores[numbers] = each.sum(1).cpu().numpy()
        else:  # the token at each place of the stream of all texts
            places = numbers[:, None] * window + np.arange(1, each.shape[1] + 1)
            real = places < stream.tokens
            scores[places[real]] = each.cpu().numpy()[real]
    if is_labelled:
        return scores, nats / part.examples
    if stream is not None:
        scores = np.add.reduceat(scores, stream.borders[0][:-1])
    scores = -scores / math.log(2) / part.bytes.mean()
    return scores, -float(scores.mean())
